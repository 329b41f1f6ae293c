"""The marker of quick tests, in a session of pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"
pytestmark = pytest.mark.process

CONFTEST = """
import pytest
from tests import quick

MARKS = ("quick", "forks", "long", "postgres", "process", "slow")

def pytest_configure(config):
    for name in MARKS:
        config.addinivalue_line("markers", name)

def pytest_collection_modifyitems(config, items):
    quick.mark(items)
    quick.guard(config)

@pytest.fixture
def redis_url():
    pass

@pytest.fixture
def frontier(redis_url):
    pass
"""
TESTS = """
import subprocess, sys, pytest

def test_plain(): pass

def test_with_a_server(frontier): pass

@pytest.mark.process
def test_of_processes(): pass

@pytest.mark.forks
def test_marked(): subprocess.run([sys.executable, "-c", ""])

@pytest.mark.slow
def test_that_takes_seconds(): pass

def test_that_starts_one_in_secret():
    getattr(__import__("sub" + "process"), "run")([sys.executable, "-c", ""])
"""
STARTING = """
import contextlib, os, subprocess, sys, pytest

@contextlib.contextmanager
def server():
    yield subprocess.run([sys.executable, "-c", ""])

class Git:
    def run(self): subprocess.run([sys.executable, "-c", ""])

def helper():
    Git().run()

@pytest.fixture
def served():
    with server():
        yield

def test_directly(): subprocess.run([sys.executable, "-c", ""])

def test_by_a_helper(): helper()

def test_by_a_fixture(served): pass

@pytest.mark.parametrize("call", [os.getpid, lambda: helper()], ids=["pure", "starting"])
def test_by_a_parameter(call): call()
"""


def test_quick_tests_start_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    sources = {"browser/test_page": "def test_page(): pass", "test_starting": STARTING}
    pytester.makepyfile(TESTS, **sources)
    done = pytester.runpytest_subprocess("-v", "-m", "quick")
    done.assert_outcomes(passed=2, failed=1, deselected=9)
    done.stdout.fnmatch_lines(
        [
            "*::test_plain PASSED*",
            "*::test_by_a_parameter[[]pure] PASSED*",
            "*mark it with @pytest.mark.forks",
        ]
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=12)
