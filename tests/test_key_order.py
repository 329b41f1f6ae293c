"""The order of fields, beside the order that jsonb makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlframe.items.key_order import in_order, order_of

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ITEMS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


def as_jsonb(value: Any) -> Any:
    """The value with the keys as jsonb sorts them."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: as_jsonb(value[key]) for key in keys}
    return [*map(as_jsonb, value)] if isinstance(value, list) else value


@given(ITEMS.filter(lambda item: isinstance(item, dict | list)))
def test_any_order_is_kept(item: Any) -> None:
    stored = as_jsonb(item)
    order = order_of(item)
    assert json.dumps(in_order(stored, order)) == json.dumps(item)
    assert bool(order) == (json.dumps(stored) != json.dumps(item))
    assert "\0" not in order


@pytest.mark.parametrize("order", ["", "!", "!!!!", "\ud7ff" * 3, "zz"])
def test_an_order_that_does_not_fit_changes_nothing(order: str) -> None:
    item = {"a": 1, "b": {"c": 2}}
    assert in_order(item, order) == item


def test_a_large_object_is_stored_as_it_is() -> None:
    assert order_of({str(n): n for n in range(60_000)}) == ""
