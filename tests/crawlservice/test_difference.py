"""Differences of the items of a page: by place or by a key, by field, and in bounds."""

from __future__ import annotations

from typing import Any

import pytest

from crawlservice.pages.difference import EXAMPLES, FIELDS, NAMES, VALUE, difference, shortened

pytestmark = pytest.mark.quick


def numbers(*given: Any, **more: Any) -> tuple[int, int, int]:
    found = difference(*given, **more)
    return found.added, found.removed, found.changed


def test_equal_items_do_not_differ() -> None:
    items = [{"a": 1, "b": [1, {"c": None}]}, {"a": 2}]
    assert not difference(items, [*items])
    assert not difference([], [])


def test_by_place() -> None:
    assert numbers([{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 4}]) == (0, 0, 2)
    assert numbers([{"a": 1}], [{"a": 1}, {"a": 2}]) == (1, 0, 0)
    assert numbers([{"a": 1}, {"a": 2}], [{"a": 1}]) == (0, 1, 0)


def test_an_item_in_front_moves_the_others() -> None:
    assert numbers([{"a": 1}, {"a": 2}], [{"a": 0}, {"a": 1}, {"a": 2}]) == (1, 0, 0)
    assert numbers([{"a": 1}, {"a": 2}], [{"a": 2}]) == (0, 1, 0)


def test_items_in_another_order_have_changed() -> None:
    found = difference([{"a": 1}, {"a": 2}, {"a": 3}], [{"a": 2}, {"a": 1}, {"a": 3}])
    assert (found.added, found.removed, found.changed, found.fields) == (0, 0, 1, {})


def test_by_key() -> None:
    old, new = [{"k": 1, "a": 1}, {"k": 2, "a": 2}], [{"k": 2, "a": 2}, {"k": 1, "a": 3}]
    found = difference(old, new, "k")
    assert (found.added, found.removed, found.changed, dict(found.fields)) == (0, 0, 1, {"a": 1})
    assert found.examples == [{"kind": "changed", "key": 1, "fields": {"a": [1, 3]}}]
    assert numbers([{"k": 1}], [{"k": 2}], "k") == (1, 1, 0)


def test_items_without_the_key_or_with_one_twice_are_compared_by_place() -> None:
    old = [{"k": 1, "a": 1}, {"k": 1, "a": 2}, {"a": 3}, {"k": "", "a": 4}]
    assert not difference(old, [*old], "k")
    assert numbers(old, old[:3], "k") == (0, 1, 0)
    assert numbers(old, [old[0], {"k": 1, "a": 5}, *old[2:]], "k") == (0, 0, 1)


def test_a_field_that_comes_or_goes() -> None:
    found = difference([{"a": None, "b": 1}], [{"b": 1, "c": None}])
    assert dict(found.fields) == {"a": 1, "c": 1}


def test_all_fields_of_an_item_that_comes_or_goes_count() -> None:
    assert dict(difference([], [{"a": 1}, {"a": 2, "b": 3}]).fields) == {"a": 2, "b": 1}
    assert difference([{"a": 1}], []).examples[0]["fields"] == {"a": [1, None]}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (10**23, 1e23, True),  # as PostgreSQL gives it back
        (1, 1.0, True),
        (1, True, False),
        ([{"n": 10**23}], [{"n": 1e23}], True),
        ([1, 2], [1], False),
        ([1, {"n": 0}], [1, {"n": False}], False),
        ("1", 1, False),
        (None, 0, False),
    ],
)
def test_numbers_that_a_database_writes_in_another_way(old: Any, new: Any, same: bool) -> None:
    assert bool(difference([{"a": old}], [{"a": new}])) is not same


def test_kept_differences_are_bounded() -> None:
    wide = {f"f{n}": "x" * 1000 for n in range(2 * NAMES)}
    found = difference([], [wide] * 10)
    assert (found.added, len(found.fields), len(found.examples)) == (10, NAMES, EXAMPLES)
    assert all(len(one["fields"]) == FIELDS for one in found.examples)
    assert {len(new) for one in found.examples for _, new in one["fields"].values()} == {VALUE}
    assert shortened({"a": "x" * 1000}).startswith('{"a": "xxx')


def test_items_that_are_no_objects() -> None:
    assert numbers([1], [2]) == (0, 0, 1)
