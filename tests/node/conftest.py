"""Fixtures of the tests of nodes: the benches of the frontier's tests."""

from __future__ import annotations

import pytest

from tests.frontier.conftest import bench, make_bench

__all__ = ("bench", "make_bench")


@pytest.fixture(autouse=True)
def without_browser(no_browser: None) -> None:
    """All of these tests run without a browser."""
