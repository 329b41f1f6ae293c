"""The second try of tests that depend on the machine, in sessions of pytest of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = "pytester"
pytestmark = pytest.mark.process

CONFTEST = """
import pathlib, pytest
from tests import second_try

def pytest_configure(config):
    config.addinivalue_line("markers", "process: as ours")
    second_try.LIST = pathlib.Path(__file__).with_name("flaky.toml")
    second_try.register(config)
    second_try.MAX_FAILURES = 3
"""
# Fails when it is run for the first time.
FLAKY = """
import pathlib, pytest

@pytest.mark.process
def test_flaky():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    again = seen.exists()
    seen.touch()
    assert again, "the machine was busy"
"""
BROKEN = """
import pytest

@pytest.mark.process
def test_broken():
    assert False, "a defect"
"""

LISTED = """
["test_a.py::test_flaky"]
since = 2026-11-28
reason = "it fails when it is run for the first time"
"""

Session = Callable[..., pytest.RunResult]


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Runs pytest on these sources, by the names of their files; ``options`` are pytest's."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of the many that start slowly
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin")
    pytester.makeconftest(CONFTEST)

    def run(*options: str, listed: str = "", **sources: str) -> pytest.RunResult:
        pytester.makefile(".toml", flaky=listed)
        pytester.makepyfile(**sources)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)

    return run


def test_what_passes_alone_is_listed_in_the_last_lines(session: Session) -> None:
    done = session("-n2", "--dist=loadgroup", test_a=FLAKY, test_b="def test_fine(): pass")
    assert done.ret == 1
    done.assert_outcomes(passed=1, failed=0)
    done.stdout.fnmatch_lines(
        [
            "test_a.py::test_flaky passed",
            "*1 flaky*",
            "*= flaky: failed, then passed when run again alone =*",
            "test_a.py::test_flaky, first failure (call):",
            "*the machine was busy*",
        ]
    )
    assert done.stdout.lines[-2].startswith("FLAKY test_a.py::test_flaky - AssertionError")
    assert done.stdout.lines[-1].startswith(
        "this run fails for 1 that tests/flaky.toml does not list"
    )
    assert "FAILURES" not in done.stdout.str()


@pytest.mark.parametrize(
    ("others", "status"),
    [({}, 0), ({"test_b": FLAKY}, 1), ({"test_b": "def test_other(): assert False"}, 1)],
    ids=["alone", "with another", "with a failure"],
)
def test_what_is_listed_does_not_fail_the_run(
    session: Session, others: dict[str, str], status: int
) -> None:
    done = session("-n0", listed=LISTED, test_a=FLAKY, **others)
    assert done.ret == status
    done.stdout.fnmatch_lines(["FLAKY test_a.py::test_flaky - AssertionError*"])
    assert ("this run fails for 1 " in done.stdout.str()) == (FLAKY in others.values())


@pytest.mark.parametrize("left_out", ["since", "reason"])
def test_the_list_has_dates_and_reasons(session: Session, left_out: str) -> None:
    lines = [line for line in LISTED.splitlines() if not line.startswith(left_out)]
    done = session("-n0", listed="\n".join(lines), test_a="def test_fine(): pass")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*test_a.py::test_flaky needs since, a date, and reason, a text"])


def test_what_fails_twice_or_is_of_another_kind_fails(session: Session) -> None:
    other = FLAKY.replace("@pytest.mark.process", "")
    done = session("-n0", test_a=FLAKY, test_b=BROKEN, test_c=other)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["trying 2 failed tests again, alone"])
    done.stdout.fnmatch_lines(["test_b.py::test_broken failed again", "*a defect*"])
    done.stdout.fnmatch_lines(["*2 failed, 1 flaky*"])
    assert done.stdout.lines[-2].startswith("FLAKY test_a.py::test_flaky")


def test_a_set_up_that_fails_once_is_flaky_too(session: Session) -> None:
    source = FLAKY.replace("def test_flaky():", "def test_x(server): pass\n\n@pytest.fixture\n"
                           "def server():", 1)  # fmt: skip
    done = session("-n0", test_a=source)
    assert done.ret == 1
    done.stdout.fnmatch_lines(["test_a.py::test_x, first failure (setup):"])


def test_a_worker_that_dies_with_a_test_is_tried_again(session: Session) -> None:
    """xdist reports it without marks: its place tells its kind."""
    source = FLAKY.replace("assert again", "again or __import__('os')._exit(3)\n    assert again")
    done = session("-n1", **{"tests/process/test_a": source})
    assert done.ret == 1
    done.stdout.fnmatch_lines(["FLAKY tests/process/test_a.py::test_flaky - *crashed*"])


def test_of_too_many_failures_none_is_tried_again(session: Session) -> None:
    sources = {f"test_{letter}": FLAKY for letter in "abcd"}
    done = session("-n0", **sources)
    assert done.ret == 1
    done.assert_outcomes(failed=4)
    done.stdout.fnmatch_lines(["4 tests of this kind failed: too many to try again"])


@pytest.mark.parametrize("option", ["-x", "-pno:second_try"])
def test_it_can_be_switched_off(session: Session, option: str) -> None:
    done = session("-n0", option, test_a=FLAKY)
    assert done.ret == 1
    done.assert_outcomes(failed=1)
