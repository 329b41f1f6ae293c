"""Outline: the open elements of a page as it is read, by a reduced form of the tree construction
of the HTML standard (13.2.6), in linear time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import islice
from typing import NamedTuple

from crawlframe.errors import TooComplex, TooDeep
from crawlframe.markup.elements import (
    BREAKOUT,
    CLOSES,
    FORMATTING,
    HEADINGS,
    INTEGRATION,
    MARKERS,
    OBJECTS,
    PLACES,
    RAW,
    RULED,
    TABLE_PARTS,
    UNPLACED,
    VOID,
    barrier_of,
)

# From benchmarks/hostile: up to these limits no parser takes longer than about 1/3 s.
MAX_DEPTH = 4_000  # open elements
MAX_STEPS = 20_000_000  # open elements that all tags together may have to search
MAX_CLONES = 300_000  # formatting elements recreated
MAX_PAIRS = 20_000_000  # pairs of attributes of one tag
MAX_OPTIONS = 40_000_000  # pairs of options of one list
MAX_ATTRIBUTES = 10_000  # of one tag
MAX_NAMES = 10_000  # distinct names of elements and attributes

_SHORT = 48  # bytes of attributes: few attributes
_UNREAD = 128 << 10  # bytes of such attributes in a page, too few for many distinct names
_SLASH = ord("/")
_ROOTS = frozenset((b"body", b"html"))
_LISTED = frozenset((b"select", b"option", b"optgroup"))

_BLANKS = b" \t\n\r\f/"
_SPACE = rb"[ \t\n\r\f/]"
_WORD = rb"[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+"
_VALUE = rb"""[ \t\n\r\f]*+=[ \t\n\r\f]*+(?:"[^"]*+"?|'[^']*+'?|[^ \t\n\r\f>"'][^ \t\n\r\f>]*+)?"""
_ATTRIBUTE = re.compile(_SPACE + rb"*+(" + _WORD + rb")(?:" + _VALUE + rb")?+")
# A tag with its attributes, or the start of a comment. Nothing is matched twice.
_TOKEN = re.compile(
    rb"<(?:(/?[a-z][^ \t\n\r\f/>]*+)((?:"
    + _SPACE
    + rb"++|"
    + _WORD
    + rb"(?:"
    + _VALUE
    + rb")?+){0,40000}+)"
    rb"|(!--(?:>|->)?)|[!?/][^>]*+)"
)


class Markup(NamedTuple):
    """Measures of a page: the number of tags, and the greatest depth of nested elements."""

    tags: int
    depth: int


def too_deep(url: str, most: int) -> TooDeep:
    return TooDeep(f"{url} has more than {most:,} elements inside each other")


class Outline:
    """The open elements, innermost last, and the cost of the tags so far to a parser.

    Every large page passes through it, so frequent steps are inlined in ``_read``."""

    def __init__(self, url: str, most: int) -> None:
        self._url = url
        self._most = most  # limit of tags
        self._stack: list[bytes] = []  # names
        self._tags_of: list[bytes | None] = []  # attributes of each, None in SVG and MathML
        self._open: defaultdict[bytes, int] = defaultdict(int)
        self._lost: list[tuple[bytes, bytes]] = []  # formatting elements to be recreated
        self._equal: Counter[tuple[bytes, bytes]] = Counter()  # counts of these
        self._deepest = 0
        self._names: set[bytes] = set()  # names of elements and attributes
        self._unread = 0  # bytes of attributes whose names were not examined
        self._hidden = False  # formatting elements hidden by a marker whose element is closed
        self._options = 0  # in the current list
        self._of_body = 0  # attributes of all <body> and <html>, which the first of them receives
        self._tags = self._steps = self._clones = self._pairs = self._option_pairs = 0

    def read(self, html: bytes) -> Markup:
        """``html`` is in lower case. Raises TooDeep or TooComplex."""
        self._limit(html.count(b"<frameset"), MAX_DEPTH, "framesets")
        place = 0
        while place >= 0:
            place = self._read(html, place)
        return Markup(self._tags, self._deepest)

    def _read(self, html: bytes, place: int) -> int:
        """Reads up to content without markup; returns where that ends, -1 at the end."""
        stack, tags_of, is_open = self._stack, self._tags_of, self._open
        tags, steps = self._tags, self._steps
        skip_from, skip_to = -1, b""
        for match in _TOKEN.finditer(html, place):
            name, attributes, comment = match.groups()
            tags += 1
            steps += len(stack)
            if tags > self._most or steps > MAX_STEPS:
                self._limit(tags, self._most, "tags")
                self._limit(steps, MAX_STEPS, "steps through open elements")
            if name is None:
                if comment == b"!--":
                    skip_from, skip_to = match.end(), b"-->"
                    break
            elif name[0] == _SLASH:
                name = name[1:]
                if stack and stack[-1] == name:
                    stack.pop()
                    tags_of.pop()
                    is_open[name] -= 1
                elif is_open[name]:
                    self._end(name)
            elif self._start(name, attributes):
                skip_from, skip_to = match.end(), b"</" + name
                break
        self._tags, self._steps = tags, steps
        return -1 if skip_from < 0 else html.find(skip_to, skip_from)

    def _limit(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise TooComplex(f"{self._url} has more than {most:,} {what}")

    def _start(self, name: bytes, attributes: bytes) -> bool:
        """Opens an element. Returns whether its content, up to the end tag, has no markup."""
        if attributes:
            self._look_at(name, attributes)
        foreign = self._tags_of and self._tags_of[-1] is None and self._is_foreign()
        if foreign and name in BREAKOUT:
            while self._is_foreign():
                self._remove(-1)
        elif foreign or name in PLACES:
            if not attributes.endswith(b"/"):
                self._push(self._placed(name), None)
            return False
        if name in RAW:
            return True
        if name in VOID or name in _ROOTS or (name in RULED and not self._close_before(name)):
            return False
        if self._lost:
            self._make_again()
        self._push(UNPLACED.get(name, name), attributes)
        return False

    def _is_foreign(self) -> bool:
        """Whether the innermost element is one of SVG or MathML that does not contain HTML."""
        return (
            bool(self._stack) and self._tags_of[-1] is None and self._stack[-1] not in INTEGRATION
        )

    def _placed(self, name: bytes) -> bytes:
        """The name of an element of SVG or MathML, which contains HTML in only one of them."""
        if name in INTEGRATION:
            root = next(above for above in reversed(self._stack) if above in PLACES)
            return name if name in PLACES[root] else UNPLACED[name]
        return name

    def _push(self, name: bytes, attributes: bytes | None) -> None:
        self._stack.append(name)
        self._tags_of.append(attributes)
        self._open[name] += 1
        if len(self._stack) > self._deepest:
            self._deepest = len(self._stack)
            if self._deepest > MAX_DEPTH:
                raise too_deep(self._url, MAX_DEPTH)

    def _look_at(self, name: bytes, attributes: bytes) -> None:
        """Counts the attributes of a tag, unless there are few."""
        if len(attributes) < _SHORT and name not in _ROOTS:
            self._unread += len(attributes)
            if self._unread < _UNREAD:
                return
        # A run of blanks with no name after it would be scanned from each of its bytes.
        named = _ATTRIBUTE.finditer(attributes.rstrip(_BLANKS))
        every = [match[1] for match in islice(named, MAX_ATTRIBUTES + 1)]
        self._limit(len(every), MAX_ATTRIBUTES, "attributes in a tag")
        found = set(every)
        self._names |= found
        count = len(found)
        if name in _ROOTS:
            self._of_body += count
            count = self._of_body
        self._pairs += count * count // 2
        self._limit(self._pairs, MAX_PAIRS, "pairs of attributes")
        self._limit(len(self._names), MAX_NAMES, "distinct names")

    def _close_before(self, name: bytes) -> bool:
        """Closes what the start tag ends. Returns False when the tag is ignored."""
        is_open = self._open
        if (name in TABLE_PARTS and not is_open[b"table"]) or (name == b"form" and is_open[name]):
            return False
        top = self._stack[-1] if self._stack else b""
        if top in HEADINGS and name in HEADINGS:
            self._pop(len(self._stack) - 1)
        elif name in _LISTED:
            self._count_options(name, top)
        elif name in (b"a", b"nobr") and is_open[name] and not self._hidden:
            self._end(name)
        for targets, barrier in CLOSES.get(name, ()):
            while self._stack and self._stack[-1] in targets:  # the usual case, and fast
                is_open[self._stack.pop()] -= 1
                self._tags_of.pop()
            for target in targets:
                if is_open[target]:
                    self._close(targets, barrier)
                    break
        return True

    def _count_options(self, name: bytes, top: bytes) -> None:
        if name == b"select":
            self._options = 0
            return
        if self._open[b"select"]:
            self._options += 1
            self._option_pairs += self._options
            self._limit(self._option_pairs, MAX_OPTIONS, "pairs of options")
        if top == b"option":
            self._pop(len(self._stack) - 1)

    def _close(self, targets: frozenset[bytes], barrier: frozenset[bytes]) -> None:
        """Closes the outermost of ``targets`` above the innermost of ``barrier``."""
        found, stack = -1, self._stack
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] in targets:
                found = place
            elif stack[place] in barrier:
                break
        if found >= 0:
            self._pop(found)

    def _end(self, name: bytes) -> None:
        barrier, stack = barrier_of(name), self._stack
        same = HEADINGS if name in HEADINGS else (name,)
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] in same:
                if name == b"form":
                    self._remove(place)
                else:
                    self._pop(place)
                return
            if stack[place] in barrier:
                break
        if name in FORMATTING:
            self._take_out(name)

    def _take_out(self, name: bytes) -> None:
        """Closes only the element itself if a formatting element contains blocks: the "adoption
        agency"."""
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] == name:
                self._remove(place)
                self._clones += 1
                return
            if self._stack[place] in MARKERS:
                return

    def _remove(self, place: int) -> None:
        """Closes this element only."""
        self._open[self._stack.pop(place)] -= 1
        del self._tags_of[place]

    def _pop(self, place: int) -> None:
        """Closes all from ``place`` on; formatting elements inside are recreated later, but not
        those in cells and the like."""
        closed, attributes = self._stack[place:], self._tags_of[place:]
        del self._stack[place:], self._tags_of[place:]
        for name in closed:
            self._open[name] -= 1
        self._hidden = self._hidden or not OBJECTS.isdisjoint(closed[1:])
        for number, (name, its) in enumerate(zip(closed, attributes, strict=True)):
            if name in MARKERS:
                break
            if not number or name not in FORMATTING or its is None:
                continue
            element = name, its
            if self._equal[element] < 3:
                self._equal[element] += 1
                self._lost.append(element)

    def _make_again(self) -> None:
        again, self._lost = self._lost, []
        self._equal.clear()
        self._clones += len(again)
        self._limit(self._clones, MAX_CLONES, "formatting elements left open")
        for element in again:
            self._push(*element)
