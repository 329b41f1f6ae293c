"""A short morning; the long one, with times, is ``python -m tests.morning``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import chromium
from tests.morning.clicks import MOST
from tests.morning.morning import Morning, Size
from tests.morning.run import act

SHORT = Size(nights=1, pages=8, lease=3, silent=0.25, latency=0)


@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_all_that_went_wrong_is_alerted_found_and_acted_on(tmp_path: Path) -> None:
    with Morning(tmp_path, SHORT) as morning:
        morning.good_nights()
        morning.bad_night()
        for trouble in morning.troubles:
            for by in ("webhook", "mail"):
                alert = morning.alerted(trouble, by)
                assert alert.at > trouble.since
                assert morning.address in alert.text
        with chromium() as browser:
            clicks = act(browser, morning)
        assert {*clicks} == {trouble.name for trouble in morning.troubles}
        assert max(clicks.values()) <= MOST, clicks
