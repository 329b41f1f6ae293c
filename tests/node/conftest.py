"""Fixtures of the tests of nodes: the benches of the frontier's tests."""

from __future__ import annotations

import pytest

from tests.frontier.conftest import make_bench

__all__ = ("make_bench",)


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masters of tests open no socket for a browser host: they are not closed as real ones are."""
    monkeypatch.setattr("crawlframe.node.master.browser_process.installed", lambda: False)
