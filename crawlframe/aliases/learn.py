"""Learning rules from pages: each candidate is compared with all pages that it says are equal."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from crawlframe.aliases.rule import ANY, IGNORING, MAX_URL, Aliases, AliasRule, Kind, origin_of
from crawlframe.base.urls import canonical

MIN_SUPPORT = 5  # different contents that a rule must have found at two URLs or more
DOUBT = 0.1  # share of groups against a rule up to which these are fetched again: pages change
GENERIC = 8  # pages that show one content, from which on it proves nothing
SETS = 5  # first segments, or sets of names, from which a rule holds in all others
MOST_RULES = 40  # of an origin
MOST_NAMES = 60  # parameters of an origin, or pairs of paths, that are tried: the most frequent
MOST_PLACES = 500  # of a rule, those with the most pages
SORTS = 20  # values that a parameter may have which only sorts
EXAMPLES = 20  # pairs of URLs that are kept of a rule
_INDEX = re.compile(r"/((?:index|default|home|main)\.\w{2,5})$", re.I)
_PARAMETER = re.compile(r";([^=/;]+)")


Candidate = tuple[AliasRule, Iterable[str]]


class Sample(NamedTuple):
    """A fetched page. ``final``: its URL after redirects. ``exact`` and ``unordered``: of its
    Content, which must prove something."""

    url: str
    final: str
    exact: bytes
    unordered: bytes


@dataclass(slots=True)
class LearnedRule:
    """A rule and its evidence: different contents that were found at two of its URLs or more, with
    pairs of these; and the groups against it. ``untried``: URLs that it would change at places
    where it was not seen to hold, with their keys."""

    rule: AliasRule
    support: int = 0
    pairs: list[tuple[str, str]] = field(default_factory=list)
    against: list[tuple[str, str]] = field(default_factory=list)
    contradictions: int = 0
    untried: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_likely(self) -> bool:
        if self.support < MIN_SUPPORT:
            return False
        return self.contradictions <= DOUBT * (self.support + self.contradictions)


def learn(
    samples: Iterable[Sample],
    known: Collection[AliasRule] = (),
    refuted: Collection[AliasRule] = (),
    revoked: Collection[AliasRule] = (),
) -> list[LearnedRule]:
    """Return the rules that pages of any origins support, in the order of their application.
    ``known``: rules that are re-checked. ``refuted`` and ``revoked`` rules are not proposed, nor
    others that ignore the same parameters, or sort by them."""
    origins: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if len(sample.url) <= MAX_URL:
            origins[origin_of(sample.url)].append(sample)
    found: list[LearnedRule] = []

    def refused(rule: AliasRule) -> bool:
        return _is_refused(rule, refuted, revoked)

    for origin, some in origins.items():
        found += _Site(origin, some, refused).learn([one for one in known if one.origin == origin])
    return found


class _Site:
    """The pages of one origin."""

    def __init__(
        self, origin: str, samples: list[Sample], refused: Callable[[AliasRule], bool]
    ) -> None:
        self._origin, self._refused = origin, refused
        self._pages: dict[str, Sample] = {}
        changing = set()
        for sample in samples:
            url = canonical(sample.url)
            other = self._pages.setdefault(url, sample._replace(url=url))
            if other.exact != sample.exact:  # it is not the same at the same URL
                changing.add(url)
        for url in changing:
            del self._pages[url]
        self._keys = {url: url for url in self._pages}  # by the rules that were accepted
        self._accepted: list[AliasRule] = []

    def learn(self, known: list[AliasRule]) -> list[LearnedRule]:
        found: list[LearnedRule] = []
        done: set[tuple[str, ...]] = set()
        while len(found) < MOST_RULES:
            self._index()
            tried = {rule.identity: (rule, keys) for rule, keys in self._candidates()}
            judged = [
                self._judge(rule, keys)
                for identity, (rule, keys) in tried.items()
                if identity not in done and not self._refused(rule)
            ]
            likely = [one for one in judged if one.is_likely]
            if not likely:
                break
            best = max(likely, key=_rank)
            done.add(best.rule.identity)
            found.append(best)
            self._accepted.append(best.rule)
            aliases = Aliases(self._accepted)
            for url, key in self._keys.items():
                if best.rule.rewritten(key) != key:
                    self._keys[url] = aliases.key(url)
        accepted = {one.rule.identity for one in found}
        self._index()
        for rule in known:
            if rule.identity not in accepted:
                one = self._judge(rule, self._by_key)
                if one.contradictions:
                    found.append(one)
        return found

    @property
    def _ignored(self) -> frozenset[str]:
        ignoring = (one for one in self._accepted if one.kind in IGNORING)
        return frozenset(name for one in ignoring for name in one.names)

    def _index(self) -> None:
        self._by_key: dict[str, list[str]] = defaultdict(list)
        self._by_content: dict[bytes, list[str]] = defaultdict(list)
        for url, key in self._keys.items():
            self._by_key[key].append(url)
            self._by_content[self._pages[url].exact].append(url)

    def _candidates(self) -> Iterator[Candidate]:
        """Rules, each with the keys that it may change."""
        # Name -> keys, in the order of the pages, so that the same pages bring the same pairs.
        having: dict[str, dict[str, None]] = defaultdict(dict)
        values: dict[str, set[str]] = defaultdict(set)
        in_path: dict[str, dict[str, None]] = defaultdict(dict)
        files: dict[str, dict[str, None]] = defaultdict(dict)
        for key in self._by_key:
            path, _, query = key[len(self._origin) :].partition("?")
            for part in query.split("&") if query else ():
                name, _, value = part.partition("=")
                having[name][key] = None
                values[name].add(value)
            for name in _PARAMETER.findall(path):
                in_path[name][key] = None
            if index := _INDEX.search(path):
                files[index[1]][key] = None
        together: dict[frozenset[str], list[str]] = defaultdict(list)
        for name in _most_frequent(having):
            yield AliasRule(self._origin, "query", (name,)), having[name]
            if len(values[name]) <= SORTS:
                yield AliasRule(self._origin, "sort", (name,)), having[name]
            together[frozenset(having[name])].append(name)
        for keys, group in together.items():  # such as utm_source and utm_medium
            if len(group) > 1:
                yield AliasRule(self._origin, "query", tuple(sorted(group))), keys
        for name in _most_frequent(in_path):
            yield AliasRule(self._origin, "path", (name,)), in_path[name]
        for name in files:
            yield AliasRule(self._origin, "index", (name,)), files[name]
        yield AliasRule(self._origin, "slash"), self._by_key
        yield AliasRule(self._origin, "case"), self._by_key
        ids = Counter(self._ids())  # each page may seem to speak for one of its own
        for rule, _ in ids.most_common(MOST_NAMES):
            yield rule, having[rule.names[0]]

    def _ids(self) -> Iterator[AliasRule]:
        """``/item?id=5`` and ``/item/5`` where both have the same content, for each of these."""
        for urls in self._by_content.values():
            keys = dict.fromkeys(self._keys[url] for url in urls)
            if not 1 < len(keys) <= GENERIC:
                continue
            for key in keys:
                path, _, query = key[len(self._origin) :].partition("?")
                name, _, value = query.partition("=")
                if not value or "&" in query:
                    continue
                for other in keys:
                    plain = other[len(self._origin) :]
                    if "?" in plain or value not in plain:
                        continue
                    segment = re.compile(rf"(?<=[/_.-]){re.escape(value)}(?=[/_.-]|$)")
                    if len(segment.findall(plain)) == 1 and "{" not in plain:
                        target = segment.sub("{}", plain)
                        yield AliasRule(self._origin, "id", (name,), path, target)

    def _judge(self, rule: AliasRule, keys: Iterable[str]) -> LearnedRule:
        """Compare all pages that the rule says are equal. ``keys``: keys that it may change."""
        changed: dict[str, str] = {}  # key -> new key
        groups: dict[str, list[str]] = defaultdict(list)  # new key -> keys
        for key in keys:
            new = rule.rewritten(key)
            if new != key:
                changed[key] = new
                groups[new].append(key)
        found = LearnedRule(rule)
        contents: set[bytes] = set()
        places: dict[str, set[bytes]] = defaultdict(set)
        generic: dict[bytes, bool] = {}
        ignored = self._ignored
        for new, some in groups.items():
            if new in self._by_key and new not in changed:
                some = [new, *some]
            if len(some) < 2:
                continue
            members = self._members(some, new, rule, changed, generic)
            if len(members) < 2:
                continue
            (_, first), *others = members
            content = self._content(rule, first)
            other = next((url for _, url in others if self._content(rule, url) != content), None)
            if other is not None:
                found.contradictions += 1
                if len(found.against) < EXAMPLES:
                    found.against.append((first, other))
                continue
            if len({key for key, _ in members}) < 2:
                continue
            contents.add(content)
            for key, _ in members:
                if key in changed:
                    places[rule.place_of(key, ignored)].add(content)
            if len(found.pairs) < EXAMPLES:
                url = next(url for key, url in reversed(members) if key != members[0][0])
                found.pairs.append((first, url))
        found.support = len(contents)
        found.rule = replace(rule, places=frozenset(_widened(rule.kind, places)))
        self._add_untried(found, changed, places)
        return found

    def _members(
        self,
        keys: list[str],
        new: str,
        rule: AliasRule,
        changed: dict[str, str],
        generic: dict[bytes, bool],
    ) -> list[tuple[str, str]]:
        """The pages of a group that prove something, with their keys, one of each key unless they
        differ: not pages that many others look like, or that redirected to another page."""
        members = []
        for key in keys:
            seen: set[bytes] = set()
            for url in self._by_key[key]:
                page = self._pages[url]
                content = self._content(rule, url)
                if content in seen or self._is_generic(page.exact, changed, generic):
                    continue
                if page.final != page.url and self._key_of(page.final, rule) != new:
                    continue
                seen.add(content)
                members.append((key, url))
        return members

    def _content(self, rule: AliasRule, url: str) -> bytes:
        page = self._pages[url]
        return page.unordered if rule.kind == "sort" else page.exact

    def _is_generic(
        self, content: bytes, changed: dict[str, str], known: dict[bytes, bool]
    ) -> bool:
        if content not in known:
            keys = {self._keys[url] for url in self._by_content[content]}
            known[content] = len({changed.get(key, key) for key in keys}) > GENERIC
        return known[content]

    def _key_of(self, url: str, rule: AliasRule) -> str:
        url = canonical(url)
        if origin_of(url) != self._origin:
            return url
        return rule.rewritten(Aliases(self._accepted).key(url))

    def _add_untried(
        self, found: LearnedRule, changed: dict[str, str], places: dict[str, set[bytes]]
    ) -> None:
        seen, ignored = set(places), self._ignored
        for key, new in changed.items():
            place = found.rule.place_of(key, ignored)
            if place not in seen and len(found.untried) < EXAMPLES:
                seen.add(place)
                found.untried.append((self._by_key[key][0], new))


def _is_refused(
    rule: AliasRule, refuted: Collection[AliasRule], revoked: Collection[AliasRule]
) -> bool:
    if any(rule.identity == one.identity for one in (*refuted, *revoked)):
        return True
    if rule.kind not in IGNORING:
        return False
    names = {*rule.names}

    def of_parameters(some: Collection[AliasRule]) -> Iterator[AliasRule]:
        return (one for one in some if one.origin == rule.origin and one.kind in IGNORING)

    return any(names.issuperset(one.names) for one in of_parameters(refuted)) or any(
        names.intersection(one.names) for one in of_parameters(revoked)
    )


def _rank(found: LearnedRule) -> tuple[int, int, bool, int]:
    """Rank of a rule: an ignored parameter says more than one that sorts; a rule for all parameters
    that come together says more than a rule for some of them."""
    rule = found.rule
    return -found.contradictions, found.support, rule.kind != "sort", len(rule.names)


def _most_frequent(having: Mapping[str, Sized]) -> list[str]:
    return sorted(having, key=lambda name: -len(having[name]))[:MOST_NAMES]


def _widened(kind: Kind, places: dict[str, set[bytes]]) -> set[str]:
    """The places, or patterns for many of them. A parameter that sorts may do more where others
    are."""
    segments: dict[str, set[str]] = defaultdict(set)
    for place in places:
        segment, _, names = place.partition("?")
        segments[names].add(segment)
    if len(segments) >= SETS and len(set().union(*segments.values())) >= SETS and kind != "sort":
        return {f"{ANY}?{ANY}"}
    wide = {names for names, some in segments.items() if len(some) >= SETS}
    held = {f"{ANY}?{names}": len(segments[names]) for names in wide}
    held |= {
        place: len(contents)
        for place, contents in places.items()
        if place.partition("?")[2] not in wide
    }
    return {*sorted(held, key=lambda place: -held[place])[:MOST_PLACES]}
