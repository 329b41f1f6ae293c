"""Databases: which of the two a test runs on. One that says nothing runs on SQLite, and on
PostgreSQL in its long version (``make soak``). The marker ``databases`` names others: both, for
code whose SQL differs between them or which locks rows."""

from __future__ import annotations

import pytest

NAME = "database"  # the fixture


def choose(items: list[pytest.Item]) -> None:
    """Makes long versions of the tests that need not run on their database each time."""
    for item in items:
        kind = getattr(getattr(item, "callspec", None), "params", {}).get(NAME)
        if kind and not _is_given(item) and kind not in _wanted(item):
            item.add_marker(pytest.mark.long)


def _wanted(item: pytest.Item) -> tuple[str, ...]:
    marker = item.get_closest_marker("databases")
    return marker.args if marker else ("sqlite",)


def _is_given(item: pytest.Item) -> bool:
    """Whether the test itself is parametrized by databases."""
    names = (mark.args[0] for mark in item.iter_markers("parametrize"))
    return any(
        NAME in (given.replace(",", " ").split() if isinstance(given, str) else given)
        for given in names
    )
