"""Matching: which entries of two lists are the same thing, perhaps with another value."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

# Lists whose lengths have a greater product are compared by place: anything else takes too long.
MATCHED, MAX_PAIRS = 10**7, 10**5

Pair = tuple[int | None, int | None]


def matched(
    before: Sequence[Any],
    after: Sequence[Any],
    was: Sequence[str] | None = None,
    now: Sequence[str] | None = None,
) -> Iterator[Pair]:
    """Pairs of places in both lists; None where an entry is gone, or is new. Equal entries are
    matched first, wherever they are, then entries at the same place, or the most alike ones.
    ``was``, ``now``: keys of the entries, which are the same for equal ones; by default their
    JSON."""
    was = [key_of(one) for one in before] if was is None else was
    now = [key_of(one) for one in after] if now is None else now
    parts = [*_changed_parts(was, now)]
    moved = _moved(parts, was, now)
    taken = {*moved.values()}
    i = j = 0
    for first, last, start, stop in [*parts, (len(before), len(before), len(after), len(after))]:
        yield from zip(range(i, first), range(j, start), strict=True)
        i, j = last, stop
        yield from ((n, moved[n]) for n in range(first, last) if n in moved)
        gone = [n for n in range(first, last) if n not in moved]
        new = [n for n in range(start, stop) if n not in taken]
        yield from _pairs(before, after, gone, new)
        yield from ((n, None) for n in gone)
        yield from ((None, n) for n in new)


def key_of(value: Any) -> str:
    """A text that is the same for equal values: 1, 1.0 and True are not equal."""
    return json.dumps(value, sort_keys=True)


def _changed_parts(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of ``before`` that ranges of ``after`` have replaced. A part that is too long to be
    matched is one of them."""
    first, shorter = 0, min(len(before), len(after))
    while first < shorter and before[first] == after[first]:
        first += 1
    same = 0  # at the end
    while same < shorter - first and before[-1 - same] == after[-1 - same]:
        same += 1
    last, stop = len(before) - same, len(after) - same
    if (last - first) * (stop - first) > MATCHED:
        yield first, last, first, stop
        return
    matcher = SequenceMatcher(None, before[first:last], after[first:stop], autojunk=False)
    for tag, *ends in matcher.get_opcodes():
        if tag != "equal":
            i, j, k, l_ = (end + first for end in ends)
            yield i, j, k, l_


def _moved(
    parts: Sequence[tuple[int, int, int, int]], was: Sequence[str], now: Sequence[str]
) -> dict[int, int]:
    """Equal entries of the changed parts."""
    places = defaultdict(list)
    for _, _, start, stop in reversed(parts):
        for n in reversed(range(start, stop)):
            places[now[n]].append(n)
    moved = {}
    for first, last, _, _ in parts:
        for n in range(first, last):
            if places[was[n]]:
                moved[n] = places[was[n]].pop()
    return moved


def _pairs(
    before: Sequence[Any], after: Sequence[Any], gone: list[int], new: list[int]
) -> Iterator[tuple[int, int]]:
    """Entries that are the same thing with another value. They are taken out of ``gone`` and
    ``new``."""
    if len(gone) == len(new) or len(gone) * len(new) > MAX_PAIRS:
        pairs = [*zip(gone, new, strict=False)]
        del gone[: len(pairs)], new[: len(pairs)]
        yield from pairs
        return
    for was in [*gone]:
        scored = [(_likeness(before[was], after[n]), -n) for n in new]
        best = max(scored, default=(0.0, 0))
        if best[0] >= 0.5:
            gone.remove(was)
            new.remove(-best[1])
            yield was, -best[1]


def _likeness(one: Any, other: Any) -> float:
    """The share of fields with the same value."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0.0
    names = one.keys() | other.keys()
    return sum(one.get(n) == other.get(n) for n in names) / len(names) if names else 0.0
