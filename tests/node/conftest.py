"""Fixtures of the tests of nodes: the benches of the frontier's tests."""

from __future__ import annotations

from tests.frontier.conftest import make_bench

__all__ = ("make_bench",)
