"""Complexity of markup: refuses a page before it is parsed when parsing would take too long.

HTML parsers take quadratic time in the depth of open elements, in the attributes of a tag, in
distinct names and in the options of a list, and make formatting elements again for each paragraph
in which they were left open. A worker that parses such a page does nothing else meanwhile. So large
pages are read once, in linear time, by a reduced form of the tree construction of the HTML standard
(13.2.6), which only knows the elements that are open. Small ones are only counted."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import accumulate, islice

from crawlframe.elements import (
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
from crawlframe.errors import TooComplex, TooDeep

# From benchmarks/hostile: no parser takes longer than about a third of a second up to these.
MAX_DEPTH = 2_000  # open elements; libxml2 drops without a word what is deeper than 2,047
MAX_STEPS = 20_000_000  # open elements that all tags together may have to look through
MAX_CLONES = 300_000  # formatting elements made again
MAX_PAIRS = 20_000_000  # pairs of attributes of one tag, of options of one list
MAX_ATTRIBUTES = 10_000  # of one tag
MAX_NAMES = 10_000  # distinct names of elements and attributes
MAX_TAGS = {"tree": 200_000, "selector": 200_000, "soup": 60_000}  # end tags and comments too
MAX_XML_TAGS = {"selector": 1_000_000, "soup": 60_000}  # a sitemap has 500,000
MAX_SOUP = 8 << 20  # bytes; its parser hangs in an attribute of more than 10 MB

_SMALL = 8 << 10  # bytes, too few for harm
_MEDIUM = 64 << 10  # bytes, too few for harm by attributes
_LARGE = 512 << 10  # bytes that are always read
_FEW, _MANY = 1_500, 10_000  # tags: too few for any harm, and too few for harm by depth
_LONG = 16 << 10  # bytes without a ">"
_SHORT = 48  # bytes of attributes: few ones
_UNREAD = 128 << 10  # bytes of such in a page, too few for many distinct names
_SLASH = ord("/")
_LINK = 2  # further tags that a link counts as, for what is done with it
_ROOTS = frozenset((b"body", b"html"))
_LISTED = frozenset((b"select", b"option", b"optgroup"))

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
# Start tag, end tag, or what has no tags in it.
_XML_TOKEN = re.compile(
    rb"<(?:!\[CDATA\[(?:[^\]]++|\](?!\]>))*+|!--(?:[^-]++|-(?!->))*+|[!?]"
    rb"|([^!?/>](?:[^>\"']++|\"[^\"]*+\"?|'[^']*+'?)*+)|(/))"
)
_FORMATTED = re.compile(rb"<(?:%s)(?=[\s/])" % b"|".join(sorted(FORMATTING - {b"a"})), re.I)


def tags_of(html: bytes, url: str) -> int:
    """How many tags an HTML page has, or 0 when they are few. ``html`` is in UTF-8. Raises TooDeep
    or TooComplex when any parser would need too long."""
    if len(html) < _SMALL or _is_harmless(html):
        return 0
    most = max(MAX_TAGS.values())
    if html.count(b"<") > 4 * most:
        raise TooComplex(f"{url} has more than {4 * most:,} tags")
    return _Outline(url, most).read(html.lower().replace(b"--!>", b"-->"))


def tags_of_xml(xml: bytes, url: str) -> int:
    """The same for XML, whose parser only minds the depth."""
    tags = xml.count(b"<")
    if tags > max(MAX_XML_TAGS.values()):
        raise TooComplex(f"{url} has {tags:,} tags")
    if (
        tags > MAX_DEPTH
        and max(accumulate(map(_step, _XML_TOKEN.findall(xml))), default=0) > MAX_DEPTH
    ):
        raise TooDeep(f"{url} has more than {MAX_DEPTH:,} elements inside each other")
    return tags


def check(tags: int, size: int, parser: str, url: str, *, xml: bool = False) -> None:
    """Raises TooComplex when the page is too much for this parser ("tree", "selector" or "soup").
    ``size`` is in bytes of UTF-8."""
    most = (MAX_XML_TAGS if xml else MAX_TAGS)[parser]
    if tags > most:
        raise TooComplex(f"{url} has {tags:,} tags; the limit of {parser} is {most:,}")
    if parser == "soup" and size > MAX_SOUP:
        raise TooComplex(f"{url} has {size:,} bytes; the limit of soup is {MAX_SOUP:,}")


def _step(tag: tuple[bytes, bytes]) -> int:
    """By how much the depth of XML changes."""
    start, end = tag
    return -1 if end else 1 if start and not start.endswith(b"/") else 0


def _is_harmless(html: bytes) -> bool:
    """Whether the page has too little of everything to take long. Most pages have."""
    size, tags = len(html), html.count(b"<")
    if size < _MEDIUM and tags <= _FEW:
        return True
    if size > _LARGE or tags > _MANY or html.count(b">") > tags + _FEW:
        return False
    if size >= _MEDIUM and max(map(len, html.split(b">"))) > _LONG:
        return False
    return tags <= _FEW or tags * len(_FORMATTED.findall(html)) <= MAX_CLONES


class _Outline:
    """The open elements, innermost last, and what the tags so far cost a parser.

    It stands in the way of every large page, so what is frequent is done in ``_read`` itself."""

    def __init__(self, url: str, most: int) -> None:
        self._url = url
        self._most = most  # tags
        self._stack: list[bytes] = []  # names
        self._tags_of: list[bytes | None] = []  # attributes of each, None in SVG and MathML
        self._open: defaultdict[bytes, int] = defaultdict(int)
        self._lost: list[tuple[bytes, bytes]] = []  # formatting elements to be made again
        self._names: set[bytes] = set()  # of elements and attributes
        self._unread = 0  # bytes of attributes whose names were not looked at
        self._hidden = False  # formatting elements, by a marker whose element is gone
        self._options = 0  # of the current list
        self._of_body = 0  # attributes of all <body> and <html>, which the first of them gets
        self._tags = self._steps = self._clones = self._pairs = 0

    def read(self, html: bytes) -> int:
        """The number of tags. ``html`` is in lower case. Raises TooDeep or TooComplex."""
        self._limit(html.count(b"<frameset"), MAX_DEPTH, "framesets")
        place = 0
        while place >= 0:
            place = self._read(html, place)
        return self._tags

    def _read(self, html: bytes, place: int) -> int:
        """Reads as far as what has no markup inside; returns where that ends, -1 at the end."""
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
            else:
                if name == b"a":
                    tags += _LINK
                if self._start(name, attributes):
                    skip_from, skip_to = match.end(), b"</" + name
                    break
        self._tags, self._steps = tags, steps
        return -1 if skip_from < 0 else html.find(skip_to, skip_from)

    def _limit(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise TooComplex(f"{self._url} has more than {most:,} {what}")

    def _start(self, name: bytes, attributes: bytes) -> bool:
        """Whether what follows, to the end tag, has no markup."""
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
        """Whether the innermost element is one of SVG or MathML, and none that has HTML in it."""
        return (
            bool(self._stack) and self._tags_of[-1] is None and self._stack[-1] not in INTEGRATION
        )

    def _placed(self, name: bytes) -> bytes:
        """The name of an element of SVG or MathML, which has HTML in it only in one of them."""
        if name in INTEGRATION:
            root = next(above for above in reversed(self._stack) if above in PLACES)
            return name if name in PLACES[root] else UNPLACED[name]
        return name

    def _push(self, name: bytes, attributes: bytes | None) -> None:
        self._stack.append(name)
        self._tags_of.append(attributes)
        self._open[name] += 1
        if len(self._stack) > MAX_DEPTH:
            raise TooDeep(f"{self._url} has more than {MAX_DEPTH:,} elements inside each other")

    def _look_at(self, name: bytes, attributes: bytes) -> None:
        """Counts the attributes of a tag, unless there are few."""
        if len(attributes) < _SHORT and name not in _ROOTS:
            self._unread += len(attributes)
            if self._unread < _UNREAD:
                return
        every = [match[1] for match in islice(_ATTRIBUTE.finditer(attributes), MAX_ATTRIBUTES + 1)]
        self._limit(len(every), MAX_ATTRIBUTES, "attributes in a tag")
        found = set(every)
        self._names |= found
        count = len(found)
        if name in _ROOTS:
            self._of_body += count
            count = self._of_body
        self._pairs += count * count // 2
        self._limit(self._pairs, MAX_PAIRS, "pairs of attributes or options")
        self._limit(len(self._names), MAX_NAMES, "distinct names")

    def _close_before(self, name: bytes) -> bool:
        """Closes what the start tag ends. False when the tag is ignored."""
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
            while self._stack and self._stack[-1] in targets:  # which is the rule, and quick
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
            self._pairs += self._options
            self._limit(self._pairs, MAX_PAIRS, "pairs of attributes or options")
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
        """Of a formatting element that has blocks in it only the element itself is closed: the
        "adoption agency"."""
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
        """Closes all from ``place`` on; formatting elements inside are made again later, those in
        cells and the like are not."""
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
            if self._lost.count((name, its)) < 3:
                self._lost.append((name, its))

    def _make_again(self) -> None:
        again, self._lost = self._lost, []
        self._clones += len(again)
        self._limit(self._clones, MAX_CLONES, "formatting elements left open")
        for element in again:
            self._push(*element)
