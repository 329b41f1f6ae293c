"""Difference: a page's items by the code of today, compared with the stored items."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from crawlframe.recorded.matching import key_of, matched

EXAMPLES = 3  # of a page that are kept
FIELDS = 20  # of an example
VALUE = 300  # characters of a value, as JSON
NAMES = 200  # fields that are counted

Data = dict[str, Any]


@dataclass
class Difference:
    """Numbers of items. ``fields``: in how many of them each field differs. ``examples``: kind,
    key, and the values before and after by field, shortened."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    fields: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def _note(self, kind: str, name: Any, fields: dict[str, list[Any]]) -> None:
        for one in fields:
            if one in self.fields or len(self.fields) < NAMES:
                self.fields[one] += 1
        if len(self.examples) < EXAMPLES:
            some = dict([*fields.items()][:FIELDS])
            shown = {
                n: [shortened(before), shortened(after)] for n, (before, after) in some.items()
            }
            self.examples.append({"kind": kind, "key": shortened(name), "fields": shown})

    def compare(self, name: Any, before: Data | None, after: Data | None) -> None:
        """Adds an item with its ``name``; one without a value ``before`` is new, one without a
        value ``after`` is gone."""
        if before is None and after is not None:
            self.added += 1
            self._note("added", name, {n: [None, value] for n, value in after.items()})
        elif after is None and before is not None:
            self.removed += 1
            self._note("removed", name, {n: [value, None] for n, value in before.items()})
        elif before is not None and after is not None and (fields := _differing(before, after)):
            self.changed += 1
            self._note("changed", name, fields)


def difference(old: Sequence[Any], new: Sequence[Any], key: str = "") -> Difference:
    """Compares items of the same value of the field ``key``; without it, and for items that lack
    it or repeat it, those that ``matched`` pairs. An item that moved before another has changed."""
    found = Difference()
    before, old_others = _by_key(old, key)
    after, new_others = _by_key(new, key)
    for name in dict.fromkeys([*after, *before]):
        found.compare(json.loads(name), before.get(name), after.get(name))
    places = []
    for was, now in sorted(matched(old_others, new_others), key=lambda pair: pair[0] or 0):
        one = None if was is None else old_others[was]
        other = None if now is None else new_others[now]
        found.compare(was if now is None else now, one, other)
        places += [now] if was is not None and now is not None else []
    found.changed += sum(place > following for place, following in pairwise(places))
    return found


def _by_key(items: Sequence[Any], key: str) -> tuple[dict[str, Data], list[Data]]:
    """Items by the JSON of their key, and items without one of their own."""
    found: dict[str, Data] = {}
    others = []
    for item in items:
        data = item if isinstance(item, dict) else {"": item}
        value = data.get(key) if key else None
        name = key_of(value)
        if value in (None, "") or name in found:
            others.append(data)
        else:
            found[name] = data
    return found, others


def _differing(old: Data, new: Data) -> dict[str, list[Any]]:
    names = dict.fromkeys([*old, *new])
    return {
        name: [old.get(name), new.get(name)]
        for name in names
        if (name in old) != (name in new) or not _same(old[name], new[name])
    }


def _same(old: Any, new: Any) -> bool:
    """Databases write large numbers in other ways than they were given."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[name], new[name]) for name in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if old == new:
        return isinstance(old, bool) == isinstance(new, bool)
    if isinstance(old, float) != isinstance(new, float):
        numbers = isinstance(old, int | float) and isinstance(new, int | float)
        return numbers and float(old) == float(new)
    return False


def shortened(value: Any) -> Any:
    """The value, or the beginning of its JSON."""
    if isinstance(value, str):
        return value if len(value) <= VALUE else f"{value[: VALUE - 1]}…"
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= VALUE else f"{text[: VALUE - 1]}…"
