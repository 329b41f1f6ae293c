"""AliasRule: a part of the URLs of one origin that does not change the page, as data; and the key
that the URLs of one page share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

# "query" and "path": parameters that are ignored, of the query or of the path (;jsessionid=).
# "sort": parameters of the query that only change the order of a list. "index": a file name that
# is the same as its folder. "id": a parameter that is the same as a part of the path. "slash": the
# one at the end. "case": upper-case letters of the path.
Kind = Literal["query", "path", "sort", "index", "id", "slash", "case"]
IGNORING = ("query", "sort")  # kinds that take a parameter out of the query
ANY = "*"  # in a place: any first segment, or any names
MAX_URL = 8192  # characters; rules are not about longer ones, which a site may make of any length
_PASSES = 4  # how often the rules of an origin are applied; each one shortens a URL, or moves an id
_DIGITS = re.compile(r"\d+")
_NO_SEGMENT = re.compile(r"[/;?]|%2F", re.I)


class AliasRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule. ``origin``: scheme, host and port of its URLs. ``names``: of parameters, or the name
    of the file. ``path`` and ``target``: of kind "id", the path with the parameter, and the path
    with {} for its value. ``places``: where it was seen to hold (see ``place_of``); it changes no
    other URL."""

    origin: str
    kind: Kind
    names: tuple[str, ...] = ()
    path: str = ""
    target: str = ""
    places: frozenset[str] = frozenset()

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for rules that differ in nothing but places."""
        return (self.origin, self.kind, *self.names, self.path, self.target)

    def __str__(self) -> str:
        names = ", ".join(self.names)
        return {
            "query": f"ignore {names}",
            "path": f"ignore ;{names}",
            "sort": f"{names} only sorts",
            "index": f"{names} is its folder",
            "id": f"{self.path}?{names}={{}} is {self.target}",
            "slash": "ignore the slash at the end",
            "case": "ignore case in paths",
        }[self.kind]

    def rewritten(self, url: str) -> str:
        """Return a canonical URL of the origin without the ignored part, at any place."""
        path, mark, query = url[len(self.origin) :].partition("?")
        if self.kind in (*IGNORING, "id"):
            if not mark:
                return url
            parts = query.split("&")
            kept = [part for part in parts if part.partition("=")[0] not in self.names]
            if len(kept) == len(parts):
                return url
            if self.kind == "id":
                value = _value_of(parts, self.names[0]) if path == self.path else ""
                if not value:
                    return url
                path = self.target.replace("{}", value)
            query = "&".join(kept)
        elif self.kind == "path":
            path = _parameters(self.names).sub("", path)
        elif self.kind == "index":
            if path.endswith("/" + self.names[0]):
                path = path[: -len(self.names[0])]
        elif self.kind == "slash":
            if path.endswith("/") and len(path) > 1:
                path = path[:-1]
        else:
            path = path.lower()
        return f"{self.origin}{path}{'?' if query else ''}{query}"

    def place_of(self, url: str, ignored: frozenset[str] = frozenset()) -> str:
        """Return where on its site a URL is: the first segment of the path, with 0 for each number,
        and the names of the other parameters of the query, without ignored ones."""
        path, _, query = url[len(self.origin) :].partition("?")
        segment = path[1:].partition("/")[0].partition(";")[0]
        if self.kind == "index" and path.count("/") == 1:
            segment = ""
        elif self.kind == "case":
            segment = segment.lower()
        names = {part.partition("=")[0] for part in query.split("&") if part}
        return _place(
            _escaped(_DIGITS.sub("0", segment)),
            {_escaped(name) for name in names.difference(self.names, ignored)},
        )


class Alias(NamedTuple):
    """``key``: equal for all URLs of a page. ``rule``: the first one that has changed it."""

    key: str
    rule: AliasRule


class Aliases:
    """The rules that hold. Rules of an origin are applied in their order."""

    def __init__(self, rules: Iterable[AliasRule] = ()) -> None:
        by_origin: dict[str, list[AliasRule]] = {}
        for rule in rules:
            by_origin.setdefault(rule.origin, []).append(rule)
        self._rules = {origin: _Rules.of(some) for origin, some in by_origin.items()}

    def find(self, url: str) -> Alias | None:
        """Return the alias of a canonical URL; None if no rule changes it."""
        if len(url) > MAX_URL:
            return None
        rules = self._rules.get(origin_of(url))
        return None if rules is None else rules.find(url)

    def key(self, url: str) -> str:
        """Return the key of a canonical URL; the URL itself if no rule changes it."""
        found = self.find(url)
        return url if found is None else found.key


class _Rules(NamedTuple):
    """Rules of one origin, with their places. ``ignored``: parameters that do not make another
    place for the other rules, because they change no page."""

    rules: list[tuple[AliasRule, frozenset[str]]]
    ignored: frozenset[str]

    @classmethod
    def of(cls, rules: list[AliasRule]) -> _Rules:
        ignored = frozenset(name for rule in rules if rule.kind in IGNORING for name in rule.names)
        places, left_out = [], {_escaped(name) for name in ignored}
        for rule in rules:
            split = (place.partition("?") for place in rule.places)
            places.append(
                frozenset(_place(head, {*names.split(",")} - left_out) for head, _, names in split)
            )
        return cls([*zip(rules, places, strict=True)], ignored)

    def find(self, url: str) -> Alias | None:
        key, first = url, None
        for _ in range(_PASSES):
            before = key
            for rule, places in self.rules:
                new = rule.rewritten(key)
                if new != key and self._holds(rule.place_of(key, self.ignored), places):
                    key, first = new, first or rule
            if key == before:
                break
        return None if first is None else Alias(key, first)

    @staticmethod
    def _holds(place: str, places: frozenset[str]) -> bool:
        if place in places:
            return True
        names = place.partition("?")[2]
        return f"{ANY}?{names}" in places or f"{ANY}?{ANY}" in places


def _place(segment: str, names: set[str]) -> str:
    return f"{segment}?{','.join(sorted(name for name in names if name))}"


def _escaped(word: str) -> str:
    """A word of a place, which is none of the marks of places."""
    return word.replace("*", "%2A").replace(",", "%2C")


def origin_of(url: str) -> str:
    """Return scheme, host and port of a normalised URL."""
    return url[: url.index("/", 8)]


def _value_of(parts: list[str], name: str) -> str:
    """The value of a parameter that is there once, if it is a segment; "" otherwise."""
    values = [value for one, _, value in (part.partition("=") for part in parts) if one == name]
    one = values[0] if len(values) == 1 else ""
    return "" if one in (".", "..") or _NO_SEGMENT.search(one) else one


@lru_cache(maxsize=1024)
def _parameters(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf";(?:{'|'.join(map(re.escape, names))})(?:=[^;/]*)?(?=[;/]|$)")
