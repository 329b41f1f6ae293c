"""Diagnosis: the cause of a bad run, decided on plain data: its pages and those of the last good
run, the values that these had, and the numbers of its hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from crawlservice.cases.document import (
    JSON,
    TEXT,
    Document,
    ValuePlace,
    currency_of,
    decimal_of,
    is_telling,
    keys_of,
)
from crawlservice.models import Case

Cause = Case.Cause
UNREACHABLE = frozenset({"dns", "connect", "tls", "timeout", "connection_lost"})
NAMELESS = frozenset({"dns", "connect"})  # reasons without which no host is called dead
REFUSED = frozenset({"blocked", "http_401", "http_403", "http_429"})
MISSING = frozenset({"http_404", "http_410"})
MAJORITY = 0.5  # share of pages that decides
NEARLY_ALL = 0.8  # share of a host's pages
HOST_SHARE = 0.1  # share of a run's pages that a host has, of which a case is made
ALIKE_SHARE = 0.4  # share of common names of elements, from which on two pages have the same design
MAX_EXAMPLES, VALUE = 5, 200  # examples, and characters of a value
HOSTS = 3  # hosts that refuse us at the same time: they have not agreed on it


@dataclass(frozen=True)
class SeenPage:
    """A kept page. ``asked``: the URL of its request; ``url``: after redirects. ``values``: by
    field, of all its items. ``failed``: it ended in error."""

    number: int
    asked: str
    url: str
    text: str
    callback: str = "parse"
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    items: int = 0
    failed: bool = False

    @cached_property
    def document(self) -> Document:
        return Document(self.text, self.url)

    def has(self, name: str) -> bool:
        return any(keys_of(value) for value in self.values.get(name, ()))


@dataclass
class HostTally:
    """The pages of one host in a run, and the reasons of those that ended in error."""

    pages: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def share(self, reasons: Iterable[str]) -> float:
        return sum(self.reasons[one] for one in reasons) / max(1, self.pages)


@dataclass
class Evidence:
    """A bad run and the last good one. ``lost``: fields that findings name, of which values are
    gone; ``odd``: whose values are others than before. ``hosts``: of the bad run; ``known``: hosts
    that answered in the good one; None: it is unknown. ``versions``: of the good and the bad
    code."""

    old: Sequence[SeenPage]
    new: Sequence[SeenPage]
    lost: Sequence[str] = ()
    odd: Sequence[str] = ()
    hosts: Mapping[str, HostTally] = field(default_factory=dict)
    known: frozenset[str] | None = None
    versions: tuple[str, str] = ("", "")


class Example(NamedTuple):
    """``old_page``, ``new_page``: numbers of kept pages, 0 for none."""

    field: str
    url: str
    old_page: int
    new_page: int
    old: str
    new: str
    place: str = ""


@dataclass
class Diagnosis:
    """``proof``: facts for sentences. ``unchanged``: the values stand where they stood, so it is
    not the site."""

    cause: str
    host: str = ""
    fields: list[str] = field(default_factory=list)
    proof: dict[str, Any] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    unchanged: bool = False


def diagnose(evidence: Evidence) -> list[Diagnosis]:
    """The causes: one for each host that does not answer or refuses us; if there is none, the one
    that the pages tell."""
    found = [*_of_hosts(evidence)]
    return found or [_of_pages(evidence)]


def refusing_hosts(hosts: Iterable[str]) -> bool:
    """Whether so many hosts refuse us at the same time that it is our addresses."""
    return len({*hosts}) >= HOSTS


# -- hosts -----------------------------------------------------------------------------------------


def _of_hosts(evidence: Evidence) -> Iterable[Diagnosis]:
    """Of hosts that matter in the run, and that answered before."""
    everything = sum(tally.pages for tally in evidence.hosts.values())
    for host, tally in evidence.hosts.items():
        known = evidence.known is None or host in evidence.known
        if tally.pages < HOST_SHARE * everything or not known:
            continue
        reasons = dict(tally.reasons.most_common(3))
        proof = {"pages": tally.pages, "reasons": reasons}
        dead = tally.share(UNREACHABLE) >= NEARLY_ALL
        if dead and any(tally.reasons[one] for one in NAMELESS):
            yield Diagnosis(Cause.HOST_DEAD, host, proof=proof)
        elif tally.share(REFUSED) >= MAJORITY:
            yield _refusal(host, proof, evidence)
        elif tally.share(MISSING) >= MAJORITY:
            yield Diagnosis(Cause.REDESIGN, host, proof={**proof, "missing": True})


def _refusal(host: str, proof: dict[str, Any], evidence: Evidence) -> Diagnosis:
    pages = [page for page in evidence.new if page.failed and _host_of([page]) == host]
    asks = [page for page in pages if _is_asking(page, evidence.old)]
    examples = _whole_examples(asks or pages, evidence.old)
    if asks and len(asks) >= MAJORITY * len(pages):
        found = {**proof, "asks": asks[0].document.asks}
        return Diagnosis(Cause.CHALLENGE, host, proof=found, examples=examples)
    return Diagnosis(Cause.BLOCKED, host, proof=proof, examples=examples)


# -- pages -----------------------------------------------------------------------------------------


def _of_pages(evidence: Evidence) -> Diagnosis:
    bad, fields = _bad_pages(evidence), [*dict.fromkeys([*evidence.lost, *evidence.odd])]
    host = _host_of(bad or evidence.new) or _main_host(evidence)
    reasons = sum((tally.reasons for tally in evidence.hosts.values()), Counter[str]())
    proof: dict[str, Any] = {"reasons": dict(reasons.most_common(3))} if reasons else {}
    if not bad:
        return Diagnosis(Cause.UNKNOWN, host, fields, {**proof, "lacks": "bad"})
    kinds = {page.callback for page in bad}
    alike = sum(page.callback in kinds for page in evidence.new)
    proof |= {"bad": len(bad), "of": alike}
    asks = Counter(page.document.asks for page in bad if _is_asking(page, evidence.old))
    if asks.total() >= MAJORITY * len(bad):
        examples = _whole_examples(bad, evidence.old)
        found = {**proof, "asks": asks.most_common(1)[0][0]}
        return Diagnosis(Cause.CHALLENGE, host, fields, found, examples)
    if (target := _target_of(bad)) and not _target_of(evidence.old):
        host = _host_of(bad, asked=True)
        examples = _whole_examples(bad, evidence.old)
        return Diagnosis(Cause.REDIRECTED, host, fields, {**proof, "target": target}, examples)
    old = [page for page in evidence.old if page.callback in kinds]
    if not old:
        return Diagnosis(Cause.UNKNOWN, host, fields, {**proof, "lacks": "old"})
    if change := _locale_change(bad, old):
        examples = _whole_examples(bad, old)
        return Diagnosis(Cause.LOCALE, host, fields, {**proof, **change}, examples)
    return _of_fields(old, bad, fields, host, proof)


def _of_fields(
    old: Sequence[SeenPage],
    bad: Sequence[SeenPage],
    fields: Sequence[str],
    host: str,
    proof: dict[str, Any],
) -> Diagnosis:
    names = fields or sorted({name for page in old for name in page.values})
    fates = [_fate_of(name, old, _lacking(bad, name)) for name in names]
    told = [fate for fate in fates if fate.kind]
    gone = [fate for fate in told if fate.kind != SAME]
    alike = _likeness(old, bad)
    proof = {**proof, "alike": round(alike, 2), "places": [fate.described for fate in gone[:5]]}
    examples = [one for fate in gone or told for one in fate.examples][:MAX_EXAMPLES]
    concerned = [*fields] or [fate.name for fate in gone]
    if told and not gone and alike >= ALIKE_SHARE:
        return Diagnosis(
            Cause.UNKNOWN, host, concerned or [*names], proof, examples, unchanged=True
        )
    kinds = {fate.kind for fate in gone}
    cause = Cause.REDESIGN
    if not told:
        cause = Cause.UNKNOWN if alike >= ALIKE_SHARE else Cause.REDESIGN
    elif kinds == {FORM}:
        cause = Cause.LOCALE
    elif kinds == {GONE} and _is_empty(old, bad):
        cause = Cause.EMPTY
    elif alike >= ALIKE_SHARE and kinds == {FRESH}:
        cause = Cause.RENAMED
    elif kinds == {INLINE}:
        cause = Cause.MOVED
    examples = examples or _whole_examples(bad, old)
    return Diagnosis(cause, host, concerned, proof, examples)


def _bad_pages(evidence: Evidence) -> list[SeenPage]:
    """The pages that show the problem: without a value of a field that was lost, without any item
    where a page of its kind had some, or whose callback failed."""
    if evidence.odd and not evidence.lost:
        return [page for page in evidence.new if page.failed or any(map(page.has, evidence.odd))]
    fertile = {page.callback for page in evidence.old if page.items}
    named = {name for page in evidence.old for name in page.values}
    lost = [name for name in evidence.lost if name in named] or [*evidence.lost]
    return [
        page
        for page in evidence.new
        if page.failed
        or (page.callback in fertile and not page.items)
        or (page.items and any(not page.has(name) for name in lost))
    ]


def _lacking(bad: Sequence[SeenPage], name: str) -> list[SeenPage]:
    """In an A/B test only some pages lack a value."""
    return [page for page in bad if not page.has(name)] or [*bad]


def _host_of(pages: Iterable[SeenPage], *, asked: bool = False) -> str:
    hosts = Counter(urlsplit(page.asked if asked else page.url).netloc for page in pages)
    return hosts.most_common(1)[0][0] if hosts else ""


def _main_host(evidence: Evidence) -> str:
    return max(evidence.hosts, key=lambda host: evidence.hosts[host].pages, default="")


def _is_asking(page: SeenPage, old: Sequence[SeenPage]) -> bool:
    """Whether it is a challenge or a login: a page about such words is as long as it was, or had
    them before."""
    if not page.document.asks or any(page.document.asks == one.document.asks for one in old):
        return False
    usual = median(len(one.document.visible) for one in old) if old else 0
    return len(page.document.visible) < max(1_500, usual / 2)


def _target_of(pages: Sequence[SeenPage]) -> str:
    """The host or the page to which most of the pages were redirected; "" if they were not."""
    moved = [page for page in pages if _bare(page.asked) != _bare(page.url)]
    others = Counter(
        host
        for page in moved
        if _site(host := urlsplit(page.url).netloc) != _site(urlsplit(page.asked).netloc)
    )
    for found, number in others.most_common(1):
        if number >= MAJORITY * len(pages):
            return found
    for found, number in Counter(_bare(page.url) for page in moved).most_common(1):
        if number >= 2 and number >= MAJORITY * len(pages):
            return found
    return ""


def _bare(url: str) -> str:
    return url.partition("#")[0].partition("://")[2].rstrip("/")


def _site(host: str) -> str:
    return host.removeprefix("www.")


def _whole_examples(bad: Sequence[SeenPage], old: Sequence[SeenPage]) -> list[Example]:
    """Beginnings of pages, beside those of the same page before."""
    before = {page.asked: page for page in old}
    return [
        Example("", page.asked, one.number if one else 0, page.number, _start(one), _start(page))
        for page in bad[:MAX_EXAMPLES]
        for one in [before.get(page.asked) or (old[0] if old else None)]
    ]


def _start(page: SeenPage | None) -> str:
    return page.document.visible[:VALUE] if page else ""


def _locale_change(bad: Sequence[SeenPage], old: Sequence[SeenPage]) -> dict[str, Any]:
    """The declared language of most pages before and now, if it has changed."""
    was, now = (
        Counter(page.document.language for page in some).most_common(1)[0] for some in (old, bad)
    )
    known = was[0] and now[0] and was[0] != now[0]
    return {"language": [was[0], now[0]]} if known and now[1] >= MAJORITY * len(bad) else {}


def _likeness(old: Sequence[SeenPage], new: Sequence[SeenPage]) -> float:
    """The share of names of elements that pages before and now have in common."""
    was, now = (
        frozenset[str]().union(*(page.document.names for page in some)) for some in (old, new)
    )
    return len(was & now) / max(1, len(was | now))


def _is_empty(old: Sequence[SeenPage], bad: Sequence[SeenPage]) -> bool:
    """Whether lists have no entries: no page has an item, and nothing in them is new."""
    many = median(page.items for page in old) >= 2
    was, now = (
        frozenset[str]().union(*(page.document.names for page in some)) for some in (old, bad)
    )
    fresh = len(now - was) / max(1, len(now))
    return many and not any(page.items for page in bad) and fresh <= 0.25


# -- fields ----------------------------------------------------------------------------------------

SAME, FRESH, INLINE, FORM, GONE = "same", "fresh", "inline", "form", "gone"


@dataclass
class Fate:
    """A field on the new pages. ``kind``: SAME: its values stand where they stood; FRESH: elsewhere
    in the markup; INLINE: only in JSON; FORM: at their place in another form; GONE: nowhere; "":
    its place was not found before either."""

    name: str
    kind: str = ""
    was: ValuePlace | None = None
    now: ValuePlace | None = None
    found: int = 0
    of: int = 0
    examples: list[Example] = field(default_factory=list)

    @property
    def described(self) -> dict[str, Any]:
        was, now = (place.name if place else "" for place in (self.was, self.now))
        return {
            "field": self.name, "was": was, "now": now, "kind": self.kind, "found": self.found,
            "of": self.of,
        }  # fmt: skip


def _fate_of(name: str, old: Sequence[SeenPage], bad: Sequence[SeenPage]) -> Fate:
    holding = [page for page in old if page.has(name)]
    was = _places([(page.document, page.values[name]) for page in holding])
    if not was:
        return Fate(name)
    before = {page.asked: page for page in holding}
    pairs = [(before[page.asked], page) for page in bad if page.asked in before]
    now = _places([(new.document, one.values[name]) for one, new in pairs])
    best = _best(was)
    # A place with many more texts than the old one has all values, of whichever subject.
    most = 1 + 2 * max(len(page.document.at(best)) for page in holding)
    dense = {p for p in now for _, new in pairs if len(new.document.at(p)) > most}
    now = {place: number for place, number in now.items() if place not in dense}
    fate = Fate(name, was=best, found=max(now.values(), default=0), of=len(pairs))
    lost = [place for place in was if place not in now]
    markup = {place: n for place, n in now.items() if place.kind != JSON}
    if _has_other_form(best, holding, bad):
        fate.kind, fate.now = FORM, best
    elif not now:
        # Other values at their place: the pages are others, or their subjects have changed.
        fate.found, fate.of = sum(bool(page.document.at(best)) for page in bad), len(bad)
        fate.kind, fate.now = (SAME, best) if fate.found >= MAJORITY * fate.of else (GONE, None)
    elif best in now or not lost:
        fate.kind, fate.now = SAME, best
    elif markup:
        fresh = {place: n for place, n in markup.items() if place not in was}
        fate.kind, fate.now = FRESH, _best(fresh or markup)
    else:
        fate.kind, fate.now = INLINE, _best(now)
    fate.examples = [*_examples_of(fate, pairs, holding, bad)]
    return fate


def _places(pages: Sequence[tuple[Document, Sequence[Any]]]) -> dict[ValuePlace, int]:
    """The places that have the values of most pages, with the number of pages. A value that may be
    there by accident proves nothing alone."""
    counts: Counter[ValuePlace] = Counter()
    values: dict[ValuePlace, set[str]] = {}
    for document, some in pages:
        hits: dict[ValuePlace, set[str]] = {}
        known = {keys[0] for value in some if (keys := keys_of(value))}
        for value in some:
            for place in document.places_of(value):
                hits.setdefault(place, set()).add(keys_of(value)[0])
        for place, found in hits.items():
            if len(found) >= MAJORITY * len(known):
                counts[place] += 1
                values.setdefault(place, set()).update(found)
    return {
        place: number
        for place, number in counts.items()
        if number >= MAJORITY * len(pages) and _proves(values[place], len(pages))
    }


def _proves(keys: set[str], pages: int) -> bool:
    telling = sum(map(is_telling, keys))
    return telling >= min(2, pages) or len(keys) >= 4


def _best(places: Mapping[ValuePlace, int]) -> ValuePlace:
    """The place of most pages; of several a text, and one whose element has a name of its own."""

    def rank(place: ValuePlace) -> tuple[int, bool, bool, int, str]:
        kind = (place.kind != TEXT, place.kind == JSON)
        plain = place.name.partition("@")[0] in ("title", "meta")
        return (-places[place], kind[1], kind[0] or plain, len(place.name), place.name)

    return min(places, key=rank)


def _has_other_form(place: ValuePlace, old: Sequence[SeenPage], bad: Sequence[SeenPage]) -> bool:
    """Whether currency or decimal form of the texts at a place differ from before."""
    before, texts = ([text for page in some for text in page.document.at(place)] for some in
                     (old, bad))  # fmt: skip
    for form in (currency_of, decimal_of):
        one, other = (_usual(map(form, some)) for some in (before, texts))
        if one and other and one != other:
            return True
    return False


def _usual(forms: Iterable[str]) -> str:
    found = Counter(filter(None, forms)).most_common(1)
    return found[0][0] if found else ""


def _examples_of(
    fate: Fate,
    pairs: Sequence[tuple[SeenPage, SeenPage]],
    old: Sequence[SeenPage],
    bad: Sequence[SeenPage],
) -> Iterator[Example]:
    """The values of items of the same pages, or of any page where no page was seen twice."""
    place = fate.now.name if fate.now else ""
    for one, new in (pairs or [(old[0], page) for page in bad[:1]])[:2]:
        was, now = (next(iter(page.values.get(fate.name, ())), None) for page in (one, new))
        yield Example(fate.name, new.asked, one.number, new.number, shown(was), shown(now), place)


def shown(value: Any) -> str:
    """The beginning of a value; "" for none."""
    text = value if isinstance(value, str) else "" if value is None else repr(value)
    return text if len(text) <= VALUE else f"{text[: VALUE - 1]}…"
