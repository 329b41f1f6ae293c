"""Comparison: the results of two versions of the code on the same pages, counted by spider and by
part: ``errors``, ``items``, ``items.FIELD``, ``requests``, and the other parts of a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from crawlframe.base.exact_json import dumps, loads
from crawlframe.pages.secrets import Secrets
from crawlframe.recorded.matching import key_of, matched

ERRORS, ITEMS, LINKS = "errors", "items", "requests"
UNCHANGED, GAINED, LOST, CHANGED = "unchanged", "gained", "lost", "changed"
EXAMPLES = 3  # pages of each kind of each part of a spider
VALUE = 200  # characters of a value
FIELDS = 500  # parts of a spider that are counted
RERUNS = 2  # pages that confirm that a part does not change from run to run
EMPTY: tuple[Any, ...] = (None, "", [], {})
NOTHING: Any = object()  # in place of a value that is not there
# Parts that are compared in their own way.
DECIDED = (ERRORS, ITEMS, LINKS, "end", "reason", "raised", "trace")

Snapshot = dict[str, Any]
Ignores = Callable[[str], bool]  # whether a part is not compared


class Tried(NamedTuple):
    """The result of one page by one version. ``snapshot``: JSON, as KeptTrial returns it.
    ``problem``: why there is none. ``left_out``: the page was not tried at all."""

    snapshot: bytes = b""
    seconds: float = 0.0
    problem: str = ""
    left_out: bool = False

    def decoded(self) -> Snapshot:
        if self.problem:
            return {"end": "error", "reason": "not tried", "raised": self.problem}
        found: Snapshot = loads(self.snapshot)
        return found


class Change(NamedTuple):
    """A difference of one page in one part."""

    part: str
    kind: str
    before: Any = NOTHING
    after: Any = NOTHING


class Place(NamedTuple):
    """A page. ``kept``: its number among the kept pages; 0 for a recorded one."""

    url: str
    kept: int = 0


class Example(NamedTuple):
    """A page with a change. ``before``, ``after``: the beginning of the value's JSON, None for no
    value. ``url``: without secrets. ``kept``: as in Place."""

    kind: str
    url: str
    before: str | None
    after: str | None
    kept: int = 0


@dataclass
class Tally:
    """Numbers of values of one part: items, links, pages with an error, or values of a field."""

    unchanged: int = 0
    gained: int = 0
    lost: int = 0
    changed: int = 0
    examples: list[Example] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return bool(self.gained or self.lost or self.changed)

    def of(self, kind: str) -> int:
        """The number of this kind."""
        return int(getattr(self, kind))

    def add(self, change: Change, place: Place) -> None:
        setattr(self, change.kind, self.of(change.kind) + 1)
        alike = [one for one in self.examples if one.kind == change.kind]
        if len(alike) >= EXAMPLES:
            return
        url = Secrets().url(place.url)
        if all((one.url, one.kept) != (url, place.kept) for one in alike):
            values = shown(change.before), shown(change.after)
            self.examples.append(Example(change.kind, url, *values, place.kept))


@dataclass
class SpiderComparison:
    """``pages``: the number of compared pages. ``left_out``: the number of others by the reason.
    ``unsteady``: parts that differ from run to run of the old code, and are not compared.
    ``problem``: why this spider could not be compared. ``is_cut``: further pages were left out,
    since it has errors whatever they are like. ``seconds``: of each page, before and after."""

    spider: str
    ignores: Ignores = lambda part: False
    pages: int = 0
    parts: dict[str, Tally] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    unsteady: set[str] = field(default_factory=set)
    problem: str = ""
    is_cut: bool = False
    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    _confirmed: Counter[str] = field(default_factory=Counter)

    @property
    def differing(self) -> dict[str, Tally]:
        """The parts that differ, in order: errors, items, their fields, links, and others."""
        found = {name: tally for name, tally in self.parts.items() if tally.differs}
        return dict(sorted(found.items(), key=lambda one: _rank(one[0])))

    @property
    def times(self) -> tuple[float, float]:
        """Seconds of the median page, before and after."""
        before, after = self.seconds
        return (median(before), median(after)) if before and after else (0.0, 0.0)

    def is_confirmed(self, part: str) -> bool:
        """Whether it is known that this part does not change from run to run."""
        return self._confirmed[part] >= RERUNS

    def take(
        self,
        place: Place,
        before: Tried,
        after: Tried,
        again: Tried | None = None,
    ) -> bool:
        """Adds a page. Returns False, and adds nothing, if it needs ``again``: the result of a
        second run of the old code, which tells what changes from run to run."""
        if (before.problem and after.problem) or before.left_out or after.left_out:
            self.left_out[before.problem or after.problem] += 1
            return True
        was = before.decoded()
        if before == after._replace(seconds=before.seconds):
            self._add(place, before, after, _counted(was, self._is_left_out), [])
            return True
        now = after.decoded()
        unchanged, changes = difference_of(was, now, self._is_left_out)
        doubtful = {one.part for one in changes if not self.is_confirmed(one.part)}
        if doubtful and again is None:
            return False
        if doubtful and again is not None:
            moving = {one.part for one in difference_of(was, again.decoded(), self._is_left_out)[1]}
            self._confirmed.update(doubtful - moving)
            if moving:
                self.unsteady |= moving
                for part in moving:
                    self.parts.pop(part, None)
                unchanged, changes = difference_of(was, now, self._is_left_out)
        self._add(place, before, after, unchanged, changes)
        return True

    def _is_left_out(self, part: str) -> bool:
        return part in self.unsteady or self.ignores(part)

    def _add(
        self,
        place: Place,
        before: Tried,
        after: Tried,
        unchanged: Counter[str],
        changes: Iterable[Change],
    ) -> None:
        self.pages += 1
        if not before.problem and not after.problem:
            for times, tried in zip(self.seconds, (before, after), strict=True):
                times.append(tried.seconds)
        for part, number in unchanged.items():
            if number and (tally := self._tally(part)) is not None:
                tally.unchanged += number
        for change in changes:
            if (tally := self._tally(change.part)) is not None:
                tally.add(change, place)

    def _tally(self, part: str) -> Tally | None:
        """None if there are too many: then names are data."""
        if part not in self.parts and len(self.parts) >= FIELDS:
            self.left_out["a part of them: the items have too many fields"] += 1
            return None
        return self.parts.setdefault(part, Tally())


def difference_of(
    was: Snapshot, now: Snapshot, ignores: Ignores = lambda part: False
) -> tuple[Counter[str], list[Change]]:
    """The number of unchanged values of each part, and the differences. ``ignores``: whether a
    part is not compared."""
    unchanged: Counter[str] = Counter()
    old, new = error_of(was), error_of(now)
    if old or new:
        if old and new and _kind_of(old) == _kind_of(new):
            return Counter([ERRORS]), []
        kind = CHANGED if old and new else LOST if old else GAINED
        changes = [Change(ERRORS, kind, old or NOTHING, new or NOTHING)]
    else:
        changes = [
            *_items(was.get("items", ()), now.get("items", ()), ignores, unchanged),
            *_links(was.get("requests", ()), now.get("requests", ()), unchanged),
            *_others(was, now),
        ]
    return unchanged, [one for one in changes if not ignores(one.part)]


def error_of(snapshot: Snapshot) -> str:
    """The error of a page in words; "" if it is done."""
    if snapshot.get("end") == "done":
        return ""
    words = (snapshot.get("raised"), snapshot.get("reason"), snapshot.get("end"))
    return str(next(filter(None, words), "no result"))


def _kind_of(error: str) -> str:
    """The type of the exception: its message may name the page."""
    return error.partition(":")[0]


def _counted(snapshot: Snapshot, ignores: Ignores) -> Counter[str]:
    """The number of values of each part."""
    if error_of(snapshot):
        return Counter([ERRORS])
    items, links = snapshot.get("items", ()), snapshot.get("requests", ())
    found = Counter({ITEMS: len(items), LINKS: len(links)})
    for item in items:
        _count(item, found)
    return Counter({part: number for part, number in found.items() if not ignores(part)})


def _count(item: Any, found: Counter[str]) -> None:
    for name, value in _fields_of(item).items():
        if value not in EMPTY:
            found[name] += 1


def _fields_of(item: Any) -> dict[str, Any]:
    """Values by part. An item that is no object is one value."""
    if not isinstance(item, dict):
        return {f"{ITEMS}.": item}
    return {f"{ITEMS}.{name}": value for name, value in item.items()}


def _items(
    was: Iterable[Any], now: Iterable[Any], ignores: Ignores, unchanged: Counter[str]
) -> Iterator[Change]:
    before, after = ([_without(_fields_of(one), ignores) for one in some] for some in (was, now))
    both = []
    for old, new in matched(before, after):
        if new is None and old is not None:
            yield Change(ITEMS, LOST, _item(before[old]))
        elif old is None and new is not None:
            yield Change(ITEMS, GAINED, NOTHING, _item(after[new]))
        elif old is not None and new is not None:
            both.append((old, new))
            unchanged[ITEMS] += 1
            yield from _values(before[old], after[new], unchanged)
    both.sort()
    for (old, new), place in zip(both, sorted(new for _, new in both), strict=True):
        if new != place:  # the first in another order
            unchanged[ITEMS] -= 1
            yield Change(ITEMS, CHANGED, _item(before[old]), _item(after[place]))
            return


def _without(fields: dict[str, Any], ignores: Ignores) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not ignores(name)}


def _item(fields: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{ITEMS}."): value for name, value in fields.items()}


def _values(old: dict[str, Any], new: dict[str, Any], unchanged: Counter[str]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name, NOTHING), new.get(name, NOTHING)
        had, has = (one is not NOTHING and one not in EMPTY for one in (before, after))
        if NOTHING not in (before, after) and same(before, after):
            unchanged[name] += had
        elif had and has:
            yield Change(name, CHANGED, before, after)
        elif had or has:
            yield Change(name, LOST if had else GAINED, before, after)
        elif NOTHING not in (before, after):  # None and "", for instance
            yield Change(name, CHANGED, before, after)


def _links(was: Iterable[Any], now: Iterable[Any], unchanged: Counter[str]) -> Iterator[Change]:
    before, after = ({_target(one): one for one in some} for some in (was, now))
    for target, old in before.items():
        new = after.get(target)
        if new is None:
            yield Change(LINKS, LOST, _link(old))
        elif same(old, new):
            unchanged[LINKS] += 1
        else:
            yield Change(LINKS, CHANGED, old, new)
    for target, new in after.items():
        if target not in before:
            yield Change(LINKS, GAINED, NOTHING, _link(new))


def _target(request: dict[str, Any]) -> str:
    return key_of([request.get(name) for name in ("callback", "method", "url", "body")])


def _link(request: dict[str, Any]) -> str:
    return " ".join(filter(None, (request.get("callback"), request["url"])))


def _others(was: Snapshot, now: Snapshot) -> Iterator[Change]:
    for name in dict.fromkeys([*was, *now]):
        before, after = was.get(name, NOTHING), now.get(name, NOTHING)
        if name not in DECIDED and before != after:
            yield Change(name, CHANGED, before, after)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same as JSON: 1, 1.0 and True are not."""
    return bool(one == other) and (type(one) is str or key_of(one) == key_of(other))


def shown(value: Any) -> str | None:
    """The beginning of a value's JSON; text is shown as it is."""
    if value is NOTHING:
        return None
    text = value if isinstance(value, str) else dumps(value).decode()
    return text if len(text) <= VALUE else f"{text[: VALUE - 1]}…"


def _rank(part: str) -> tuple[int, str]:
    order = (ERRORS, ITEMS, f"{ITEMS}.", LINKS)
    head = f"{ITEMS}." if part.startswith(f"{ITEMS}.") else part
    return order.index(head) if head in order else len(order), part
