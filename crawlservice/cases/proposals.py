"""Proposals: expressions that read a lost field from new pages, proved by the values that it had on
pages whose subject is known from before. Decided on plain data."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlframe.errors import CrawlframeError
from crawlframe.recipes.extraction import page_scope, read, scopes
from crawlframe.recipes.recipe import Field, Recipe
from crawlservice.cases.candidates import POSITION, candidates
from crawlservice.cases.diagnosis import SeenPage, shown
from crawlservice.cases.document import is_telling, keys_of
from crawlservice.cases.expressions import Expression, ReadPage, same_keys

MAX_PROPOSALS, MAX_EXAMPLES = 5, 3
MAX_TRIED = 80  # expressions, those of most pages first
MAX_SHOWN = 200  # characters of an expression
LEARNING = 6  # pages in which values are looked for
RIGHT = 0.8  # share of pages, from which on an expression is proposed
WRONG = 0.1  # share of pages with another value, up to which it is
MAX_LONGER = 4  # how many times longer a text of the same kind may be


class Subject(NamedTuple):
    """A new page, with the values that its items are known to have; None for one that is not.
    ``aligned``: they are those of its items, in their order."""

    page: ReadPage
    known: list[Any] | None
    aligned: bool = False


class ProvedExample(NamedTuple):
    """``page``: the number of a kept page."""

    page: int
    url: str
    known: str
    found: str


class Proposal(NamedTuple):
    """``right``: pages with the known value, ``of``: pages whose value is known; ``alike``: other
    pages with one value of the same kind, of ``others``. ``line``: in a recipe; "" for none."""

    expression: str
    code: str
    line: str
    right: int
    of: int
    alike: int
    others: int
    examples: list[ProvedExample]


@dataclass
class _Tally:
    one: Expression
    cost: int
    right: int = 0
    exact: int = 0
    alike: int = 0
    joined: bool = False
    found: dict[int, frozenset[str]] = field(default_factory=dict)  # by the number of a page
    proving: set[str] = field(default_factory=set)
    examples: list[ProvedExample] = field(default_factory=list)

    @property
    def rank(self) -> Any:
        return (-self.right, -self.alike, -self.exact, self.cost, len(self.one.shown), self.one)

    @property
    def last(self) -> tuple[str, str]:
        """Of those that end in the same element, one is enough."""
        last = re.sub(r"^\w+(?=[.\[])", "", self.one.shown.rpartition(" ")[2])
        return self.one.kind, re.sub(r'^\[class="([\w-]+)"\]', r".\1", last)


def propose(
    name: str, old: Sequence[SeenPage], new: Sequence[ReadPage], recipe: Recipe | None = None
) -> list[Proposal]:
    """The proposals for a field, the best first; [] if none is proved. ``old``: pages of good
    runs, ``new``: of the bad one. ``recipe``: of the spider; its lines are proved too."""
    holding = [page for page in old if page.has(name)]
    kinds = {page.callback for page in holding}
    lacking = [one for one in new if one.page.callback in kinds and not one.page.has(name)]
    values = [value for page in holding for value in page.values[name] if keys_of(value)]
    many = any(page.items > 1 for page in holding) or any(isinstance(v, list) for v in values)
    subjects = [*_subjects(name, holding, lacking)]
    known = [one for one in subjects if one.known]
    if len(known) < (1 if many else 2):
        return []
    is_alike = _likeness(values)
    tallies = [
        tally
        for one, cost in _candidates(known, many=many)
        if (tally := _tally(one, cost, subjects, many, is_alike))
    ]
    best = sorted(_agreeing(tallies), key=lambda one: one.rank)
    others, chosen = len(subjects) - len(known), dict[tuple[str, str], Proposal]()
    for one in best:
        if one.last not in chosen and len(chosen) < MAX_PROPOSALS:
            line = _line(name, one.one, recipe, known, many) if recipe else ""
            code = one.one.code(many=many, joined=one.joined)
            proof = (one.right, len(known), one.alike, others, one.examples)
            chosen[one.last] = Proposal(one.one.shown, code, line, *proof)
    return sorted(chosen.values(), key=lambda one: bool(recipe) and not one.line)


# -- subjects --------------------------------------------------------------------------------------


def _subjects(name: str, old: Sequence[SeenPage], new: Sequence[ReadPage]) -> Iterator[Subject]:
    """The same address tells the subject of a page; else a field that is a key tells that of an
    item, and of lists, whose items change, it does so better."""
    before = {page.asked: page for page in old}
    key, by_key = _key_of(name, old, [one.page for one in new])
    for one in new:
        page = one.page
        same = before.get(page.asked)
        keyed = [by_key.get(first_key(value)) for value in page.values.get(key, ())] if key else []
        if any(value is not None for value in keyed) and (same is None or page.items > 1):
            yield Subject(one, keyed, aligned=True)
        else:
            yield Subject(one, _flat(same.values[name]) if same else None)


def _key_of(
    name: str, old: Sequence[SeenPage], new: Sequence[SeenPage]
) -> tuple[str, dict[str, Any]]:
    """The field that tells most items apart and that new pages still have, and the values of the
    lost field by it."""
    best: tuple[str, dict[str, Any]] = ("", {})
    for one in sorted({some for page in old for some in page.values} - {name}):
        found: dict[str, Any] = {}
        seen: Counter[str] = Counter()
        for page in old:
            keys, values = page.values.get(one, ()), page.values[name]
            if len(keys) == len(values) == page.items:
                for key, value in zip(map(first_key, keys), values, strict=True):
                    seen[key] += value != found.get(key, object())
                    found[key] = value
        usable = all(number == 1 and is_telling(key) for key, number in seen.items())
        if usable and len(found) > len(best[1]) and any(page.has(one) for page in new):
            best = one, {key: value for key, value in found.items() if keys_of(value)}
    return best


def is_text(text: str) -> bool:
    """Whether the database can have it."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def first_key(value: Any) -> str:
    return next(iter(keys_of(value)), "")


def _flat(values: Sequence[Any]) -> list[Any] | None:
    """None if there are none."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return [one for one in flat if keys_of(one)] or None


# -- trying ----------------------------------------------------------------------------------------


def _candidates(known: Sequence[Subject], *, many: bool) -> list[tuple[Expression, int]]:
    """Expressions with their costs, those that most pages have first."""
    pages: Counter[Expression] = Counter()
    costs: dict[Expression, int] = {}
    for subject in known[:LEARNING]:
        wanted = same_keys(subject.known or [], subject.page.page.url)
        try:
            found = candidates(subject.page, wanted, many=many)
        except CrawlframeError:
            continue
        for one, cost in found.items():
            pages[one] += 1
            costs[one] = min(cost, costs.get(one, cost))
    least = RIGHT * min(LEARNING, len(known))
    usual = [one for one, number in pages.items() if number >= least]
    some = [
        (one, costs[one]) for one in usual if len(one.shown) <= MAX_SHOWN and is_text(one.shown)
    ]
    return sorted(some, key=lambda pair: (-pages[pair[0]], pair[1]))[:MAX_TRIED]


def _tally(
    one: Expression,
    cost: int,
    subjects: Sequence[Subject],
    many: bool,
    is_alike: Callable[[Any], bool],
) -> _Tally | None:
    """None for an expression that is not right often enough, or proves nothing."""
    tally, of, wrong = _Tally(one, cost), 0, 0
    known = sum(subject.known is not None for subject in subjects)
    for subject in sorted(subjects, key=lambda some: some.known is None):
        try:
            found = subject.page.values(one)
        except CrawlframeError:
            found = []
        page = subject.page.page
        if not many and not _is_one(found, page.url, one.attribute):
            found = []
        tally.found[page.number] = same_keys(found, page.url)
        if subject.known is None:
            tally.alike += bool(found) and all(map(is_alike, found))
            continue
        of += 1
        if _is_right(found, subject, one.attribute, many):
            _count(tally, subject, found)
        else:
            wrong += bool(found)
            if of - tally.right > (1 - RIGHT) * known:
                return None
    others = len(subjects) - of
    proved = sum(map(is_telling, tally.proving)) >= 2 or len(tally.proving) >= 4
    bad = tally.right < RIGHT * of or wrong > WRONG * of or tally.alike < RIGHT * others
    return tally if proved and not bad else None


def _count(tally: _Tally, subject: Subject, found: Sequence[Any]) -> None:
    known = [value for value in subject.known or () if value is not None]
    page = subject.page.page
    tally.right += 1
    tally.proving |= {first_key(value) for value in known}
    texts = {" ".join(str(value).split()) for value in found}
    tally.exact += all(not isinstance(one, str) or " ".join(one.split()) in texts for one in known)
    links = [one for one in known if isinstance(one, str) and "://" in one]
    tally.joined |= any(one not in texts for one in links)
    if len(tally.examples) < MAX_EXAMPLES:
        values = (
            told if is_text(told := shown(some[0] if len(some) == 1 else some)) else repr(told)
            for some in (known, [*found])
        )
        tally.examples.append(ProvedExample(page.number, page.asked, *values))


def _is_one(found: Sequence[Any], url: str, attribute: str) -> bool:
    """Whether all values are the same one."""
    first = same_keys(found[0], url, attribute) if found else frozenset[str]()
    return bool(found) and all(first & same_keys(value, url, attribute) for value in found[1:])


def _is_right(found: Sequence[Any], subject: Subject, attribute: str, many: bool) -> bool:
    known, url = subject.known or [], subject.page.page.url
    if not found:
        return False
    keys = [same_keys(value, url, attribute) for value in found]
    if not many:
        return bool(keys[0] & same_keys(known, url))
    if subject.aligned:
        pairs = zip(known, keys, strict=False)
        same = all(value is None or same_keys(value, url) & one for value, one in pairs)
        return len(known) == len(keys) and same
    every = frozenset[str]().union(*keys)
    hits = sum(bool(same_keys(value, url) & every) for value in known)
    return len(known) == len(keys) and hits >= RIGHT * len(known)


def _likeness(values: Sequence[Any]) -> Callable[[Any], bool]:
    """Whether a value is of the same kind as these: a number, a date, an address, a text."""
    flat = _flat(values) or []
    usual = Counter(map(_kind_of, flat)).most_common(1)[0][0] if flat else ""
    longest = max((len(str(value)) for value in flat), default=0)
    return lambda value: _kind_of(value) == usual and len(str(value)) <= MAX_LONGER * longest + 20


def _kind_of(value: Any) -> str:
    keys = same_keys(value)
    for mark, kind in (("#", "number"), ("date:", "date")):
        if any(key.startswith(mark) for key in keys):
            return kind
    text = str(value).strip()
    return "address" if text.startswith(("http://", "https://", "/")) else "text"


def _agreeing(tallies: Sequence[_Tally]) -> list[_Tally]:
    """Those that say the same as the best on all pages; none if another one that is as good, and
    does not count elements, says something else: then none of them is proved."""
    if not tallies:
        return []
    best = min(tallies, key=lambda one: one.rank)

    def differs(one: _Tally) -> bool:
        pairs = ((keys, best.found[page]) for page, keys in one.found.items())
        return any(mine and its and not mine & its for mine, its in pairs)

    for one in tallies:
        same = (one.right, one.alike) == (best.right, best.alike)
        if same and one.cost < POSITION and differs(one):
            return []
    return [one for one in tallies if one.right == best.right and not differs(one)]


# -- recipes ---------------------------------------------------------------------------------------


def _line(name: str, one: Expression, recipe: Recipe, known: Sequence[Subject], many: bool) -> str:
    """The line of the recipe, if its own machinery reads the known values with it; else ""."""
    in_list = name in recipe.fields
    was = recipe.fields.get(name) or (recipe.detail.fields.get(name) if recipe.detail else None)
    if was is None or (new := one.field(was)) is None:
        return ""
    probe = Field(**{part: getattr(new, part) for part in ("css", "jmespath", "regex")},
                  attribute=new.attribute, convert=new.convert)  # fmt: skip
    right = 0
    for subject in known:
        response = subject.page.response
        try:
            places = scopes(response, recipe.each) if in_list else [page_scope(response)]
            values = [read(probe, place).value for place in places]
        except CrawlframeError:
            continue
        found = [value for value in values if keys_of(value)]
        flat = _flat(found) or []
        right += _is_right(flat if many else flat[:1], subject, one.attribute, many)
    return toml_of(name, new) if right >= RIGHT * len(known) else ""


def toml_of(name: str, field_: Field) -> str:
    """A field of a recipe, as a line of a file."""
    given = [
        (part, value)
        for part in ("css", "attribute", "jmespath", "regex", "convert", "default")
        if (value := getattr(field_, part)) not in ("", (), None)
    ]
    return f"{name} = {{ {', '.join(f'{part} = {_toml(value)}' for part, value in given)} }}"


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return _toml(value[0]) if len(value) == 1 else f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    return (
        f"'{value}'" if '"' in value and "'" not in value else json.dumps(value, ensure_ascii=False)
    )
