"""Fixtures of the tests of nodes: the benches of the frontier's tests."""

from __future__ import annotations

import pytest

from tests.frontier.conftest import make_bench

__all__ = ("make_bench",)


@pytest.fixture(autouse=True)
def without_browser(no_browser: None) -> None:
    """In all of these tests."""
