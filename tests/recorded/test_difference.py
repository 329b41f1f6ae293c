"""Differences are named by field; moved values are no differences."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.recorded.difference import MAX_LINES, MAX_VALUE, differences, volatile


def items(*given: Any) -> dict[str, Any]:
    return {"end": "done", "items": [*given]}


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (items({"a": 1}), items({"a": 1}), []),
        (items({"a": 1}), items({"a": 2}), ["items[0].a: 1 → 2"]),
        (items({"a": "1"}), items({"a": 1}), ["items[0].a: '1' → 1 (was text, is int)"]),
        (items({"a": 1}), items({"a": 1.0}), ["items[0].a: 1 → 1.0 (was int, is float)"]),
        (items({"a": True}), items({"a": 1}), ["items[0].a: True → 1 (was a bool, is int)"]),
        (items({"a": "x"}), items({"a": None}), ["items[0].a: 'x' → None"]),
        (items({"a": 1, "b": 2}), items({"a": 1}), ["items[0].b: is gone; was 2"]),
        (items({"a": 1}), items({"a": 1, "b": 2}), ["items[0].b: is new: 2"]),
        (items({"a": {"b": [1, 2]}}), items({"a": {"b": [1, 3]}}), ["items[0].a.b[1]: 2 → 3"]),
        (items({"a": [1]}), items({"a": [1, 2]}), ["items[0].a: [1] → [1, 2]"]),
        # One more in front moves the others.
        (
            items({"a": 1, "b": 1}, {"a": 2, "b": 2}),
            items({"a": 0, "b": 0}, {"a": 1, "b": 1}, {"a": 2, "b": 2}),
            ["items[0]: item is new: {'a': 0, 'b': 0}"],
        ),
        (
            items({"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 3, "b": 3}),
            items({"a": 1, "b": 1}, {"a": 3, "b": 3}),
            ["items[1]: item is gone: {'a': 2, 'b': 2}"],
        ),
        (items({"a": 1}, {"a": 2}), items({"a": 2}, {"a": 1}), []),
        # One is gone, and another has changed.
        (
            items({"a": 1, "b": 1}, {"a": 2, "b": 2}),
            items({"a": 2, "b": 9}),
            ["items[0].b: 2 → 9", "items[0]: item is gone: {'a': 1, 'b': 1}"],
        ),
        (items(), {"end": "error", "reason": "callback"},
         ["end: 'done' → 'error'", "reason: None → 'callback'"]),
        (
            {"requests": [{"url": "a"}, {"url": "b"}]},
            {"requests": [{"url": "a"}]},
            ["requests[1]: request is gone: {'url': 'b'}"],
        ),
        ({"stats": {"n": 1}}, {"stats": {"n": 2}}, ["stats.n: 1 → 2"]),
    ],
)  # fmt: skip
def test_differences(before: dict[str, Any], after: dict[str, Any], lines: list[str]) -> None:
    assert differences(before, after) == lines


def test_what_is_ignored_is_not_compared() -> None:
    before = items({"a": 1, "at": 1, "in": {"at": 1}})
    after = items({"a": 1, "at": 2, "in": {"at": 2}}) | {"stats": {"n": 1}}
    assert differences(before, after, ["items.at", "items.in.at", "stats"]) == []
    assert differences(before, after, ["items.at"]) == [
        "items[0].in.at: 1 → 2",
        "stats: None → {'n': 1}",
    ]
    moved = items({"b": 0, "at": 5}, {"a": 1, "at": 2, "in": {"at": 2}})
    assert differences(before, moved, ["items.at", "items.in"]) == [
        "items[0]: item is new: {'b': 0, 'at': 5}"
    ]


def test_long_values_and_many_lines_are_cut() -> None:
    [line] = differences(items({"a": 1}), items({"a": "x" * 999}))
    assert len(line) < MAX_VALUE + 40
    lines = differences(
        items({str(n): 1 for n in range(99)}), items({str(n): 2 for n in range(99)})
    )
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "and 49 more"


def test_what_changes_from_run_to_run() -> None:
    before = items({"a": 1, "at": 1}, {"a": 2, "at": 1}) | {"stats": {"n": 1}}
    after = items({"a": 1, "at": 2}, {"a": 2, "at": 3}) | {"stats": {"n": 2}}
    assert volatile(before, after) == {"items.at", "stats"}
    assert volatile(before, before) == set()
    assert volatile(items({"a": 1}), items()) == set()  # that is no value
    assert volatile(items({"a": 1}), items({"b": 1})) == set()
    assert volatile(items({"a": 1}), {"end": "error", "items": [{"a": 2}]}) == set()


def test_long_lists_are_compared_in_time() -> None:
    """A quadratic comparison of these would take hours."""
    many = [{"n": n, "a": 1} for n in range(20_000)]
    fewer = [{"n": n, "a": 2} for n in range(19_990)]
    assert differences(items(*many), items(*fewer))[0] == "items[0].a: 1 → 2"
    same = [{"a": 1}] * 20_000
    assert differences(items({"b": 1}, *same), items(*same, {"b": 2}, {"b": 2}))
    assert differences(items({"b": 1}, *many), items(*many)) == ["items[0]: item is gone: {'b': 1}"]
