"""Fixtures of the tests of a node: the frontier's benches."""

from __future__ import annotations

from tests.frontier.conftest import make_bench

__all__ = ("make_bench",)
