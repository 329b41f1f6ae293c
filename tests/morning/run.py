"""Run: the part of a morning in which a team finds and solves the problems, in a browser."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.browser.conftest import TIMEOUT_MS
from tests.morning.clicks import Clicks, log_in
from tests.morning.morning import Morning

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def act(browser: Browser, morning: Morning) -> dict[str, int]:
    """Returns by trouble how many clicks it took."""
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    log_in(page, morning.address)
    with ThreadPoolExecutor(1) as pool:  # while a browser is open, this thread has no models
        pool.submit(morning.fix).result()
    clicks = Clicks(page, morning.address, morning.shops)
    for trouble in morning.troubles:
        clicks.solve(trouble)
    clicks.wait_until_well()
    return clicks.done
