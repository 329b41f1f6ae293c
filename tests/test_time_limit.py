"""A test that takes too long, in a process of pytest-xdist."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = "pytester"
pytestmark = pytest.mark.process

CONFTEST = """
from tests.time_limit import TimeLimit

def pytest_configure(config):
    config.pluginmanager.register(TimeLimit())
"""
ENDLESS = """
import threading

def test_endless():
    threading.Event().wait()
"""


def test_its_last_words_are_shown(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin -p pytest_timeout")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_a=ENDLESS)
    options = ("--import-mode=importlib", "--timeout=1", "-n1", "--max-worker-restart=0")
    outcome = pytester.runpytest_subprocess(*options)
    outcome.stderr.fnmatch_lines(["test_a.py::test_endless takes longer than 1 s"])
    outcome.stderr.fnmatch_lines(["*in test_endless"])
    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
