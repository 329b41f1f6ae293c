"""The suite passes in other worlds. `make worlds` runs all of it in each; these tests have failed
in one of them."""

from __future__ import annotations

import pytest

from tests.worlds import WORLDS, run
from tests.worlds.__main__ import main

CTRL_C = (
    "tests/demosite/test_server.py",
    "tests/crawlservice/test_crawl.py",
    "-k=ctrl_c or cancelled_with_its_site",
)
CLOCKS = (
    "tests/crawlservice/test_timing.py",
    "tests/crawlservice/test_schedule_admin.py::test_words",
    "tests/test_logs.py",
)


@pytest.mark.process
@pytest.mark.parametrize(
    ("world", "tests"), [("background", CTRL_C), ("abroad", CLOCKS), ("west", CLOCKS)]
)
def test_tests_pass_in_each_world(world: str, tests: tuple[str, ...]) -> None:
    assert run(WORLDS[world], ["-n0", "-q", "-p", "no:cacheprovider", *tests]) == 0


def test_an_unknown_world_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["moon", "-q"]) == 2
    assert "no world 'moon'; there are background, " in capsys.readouterr().err
