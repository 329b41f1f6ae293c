"""The databases that tests run on each time, in a session of pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"
pytestmark = pytest.mark.process

CONFTEST = """
import pytest
from tests import databases

def pytest_configure(config):
    for name in ("databases", "long"):
        config.addinivalue_line("markers", name)

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    databases.choose(items)

@pytest.fixture(params=["sqlite", "postgres"])
def database(request):
    return request.param
"""
TESTS = """
import pytest

def test_plain(database): pass

@pytest.mark.databases("sqlite", "postgres")
def test_both(database): pass

@pytest.mark.databases("postgres")
def test_other(database): pass

@pytest.mark.parametrize("number, database", [(1, "postgres")], indirect=["database"])
def test_given(number, database): pass

def test_none(): pass
"""


def test_sqlite_each_time_and_the_rest_in_the_long_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    each = pytester.runpytest_subprocess("-v", "-m", "not long")
    each.assert_outcomes(passed=6, deselected=2)
    for name in ("plain[sqlite]", "both[sqlite]", "both[postgres]", "other[postgres]", "given[*]"):
        each.stdout.fnmatch_lines([f"*::test_{name.replace('[', '[[]')} PASSED*"])
    pytester.runpytest_subprocess("-m", "long").assert_outcomes(passed=2, deselected=6)
