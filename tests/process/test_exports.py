"""kill -9 of the stewards of a real node while they export: every row once, in order. Each point is
in tests/crawlservice/test_exports.py and test_export_targets.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crawlframe.base import faults
from crawlservice.exports import changes
from crawlservice.exports.definition import Definition
from crawlservice.models import Export, Item
from tests.conftest import Running
from tests.crawlservice.exporting import records
from tests.process.conftest import Look, OddWeb, Submit, wait_for

EXPORT = [point for point in faults.POINTS if point.startswith("export.")]
POINTS = (EXPORT[0], EXPORT[-1])

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path, settings_with: Callable[..., None]) -> Path:
    settings_with(EXPORT_DIR=tmp_path)
    return tmp_path


def test_stewards_that_are_killed_are_followed_by_others(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    place: Path,
    web: OddWeb,
) -> None:
    """The export is carried on by the next steward of a real node."""
    marks = place / "marks"
    marks.mkdir()
    struck = [f"{point}:{1 + n % 2}:kill" for n, point in enumerate(POINTS)]
    odd_env |= {"FAULT": ",".join(struck), "FAULT_MARKS": str(marks)}
    odd_env["CRAWLFRAME_EXPORT_DIR"] = str(place)
    web.pages["/"] = [f"/page/{n}" for n in range(40)]
    goal = {"kind": "files", "url": "items", "max_minutes": 0, "max_rows": 3}
    changes.add(Definition.model_validate({"name": "items", "target": goal}))
    start_manage("runcrawler", "--node", "one", "--workers", 1)
    pk = submit("odd", url=web.url)
    look.wait(pk)
    wait_for(lambda: Export.objects.get().rows == len(look.items(pk)) == 41)
    assert len([*marks.iterdir()]) == len(POINTS)
    found = records(place / "items")
    ids = [*Item.objects.order_by("pk").values_list("pk", flat=True)]
    assert [one["_item"] for one in found] == ids
