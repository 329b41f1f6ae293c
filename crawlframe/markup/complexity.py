"""Complexity of markup: refuses a page before it is parsed when parsing would take too long.

HTML parsers take quadratic time in the depth of open elements, in the attributes of a tag, in
distinct names and in the options of a list, and recreate formatting elements for each paragraph in
which they were left open. A worker that parses such a page does nothing else meanwhile. So large
pages are read once, in linear time (outline.py). Small ones are only counted."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate

from crawlframe.errors import TooComplex
from crawlframe.markup import outline
from crawlframe.markup.elements import FORMATTING, VOID
from crawlframe.markup.outline import MAX_CLONES, Markup, Outline, too_deep

# From benchmarks/hostile: up to these limits no parser takes longer than about 1/3 s.
# DEPTHS is in open elements; libxml2 silently drops what is deeper than 2,047.
DEPTHS = {"tree": outline.MAX_DEPTH, "selector": 2_000, "soup": 2_000, "article": 2_000}
# Including end tags and comments. That of an article, which computes in a thread, takes up to 5 s.
MAX_TAGS = {"tree": 300_000, "selector": 200_000, "soup": 60_000, "article": 30_000}
MAX_XML_TAGS = {"selector": 1_000_000, "soup": 60_000}  # a sitemap has 500,000
MAX_LINKS = 120_000  # distinct links of a page that are joined to its URL, less a third of its tags
MAX_BYTES = {"soup": 8 << 20, "article": 8 << 20}  # an attribute of more than 10 MB hangs libxml2

_SMALL = 8 << 10  # bytes, too few to do harm
_MEDIUM = 64 << 10  # bytes, too few to do harm by attributes
_LARGE = 512 << 10  # bytes; larger pages are always read
_FEW, _MANY = 1_500, 10_000  # tags: too few for any harm; too few for harm by depth
_BALANCED = 25_000  # tags: too few for harm by depth if nearly all elements have an end tag
_LONG = 16 << 10  # bytes without a ">"
_SEPARATORS = 6_000  # of a tag, which has at most as many attributes: too few to harm

# Start tag, end tag, or text without tags.
_XML_TOKEN = re.compile(
    rb"<(?:!\[CDATA\[(?:[^\]]++|\](?!\]>))*+|!--(?:[^-]++|-(?!->))*+|[!?]"
    rb"|([^!?/>](?:[^>\"']++|\"[^\"]*+\"?|'[^']*+'?)*+)|(/))"
)
# A formatting element with attributes, unless its end tag directly follows its text.
_FORMATTED = re.compile(
    rb"<(?=[bcefinstuBCEFINSTU])((?i:%s))(?=[\s/])"
    rb"(?!(?:\s++[a-zA-Z-]++=\"[^\"<>]*+\")*+\s*+>[^<]*+</\1>)([^>]*+)"
    % b"|".join(sorted(FORMATTING - {b"a"}))
)
_NAME = re.compile(rb"<(/?[a-z][^\s/>]*+)")
_START = re.compile(rb"<[a-zA-Z]")
LITTLE = Markup(0, 0)


def markup_of(html: bytes, url: str) -> Markup:
    """Measures an HTML page in UTF-8; zeros when it is small. Raises TooDeep or TooComplex when
    every parser would take too long."""
    if len(html) < _SMALL or _is_harmless(html):
        return LITTLE
    most = max(MAX_TAGS.values())
    if html.count(b"<") > 4 * most:
        raise TooComplex(f"{url} has more than {4 * most:,} tags")
    return Outline(url, most).read(html.lower().replace(b"--!>", b"-->"))


def markup_of_xml(xml: bytes, url: str) -> Markup:
    """The same for XML, whose parsers are only sensitive to depth."""
    tags = xml.count(b"<")
    if tags > max(MAX_XML_TAGS.values()):
        raise TooComplex(f"{url} has {tags:,} tags")
    if tags <= DEPTHS["selector"]:
        return Markup(tags, tags)
    return Markup(tags, max(accumulate(map(_step, _XML_TOKEN.findall(xml))), default=0))


def check(markup: Markup, size: int, parser: str, url: str, *, xml: bool = False) -> None:
    """Raises TooDeep or TooComplex when the page is too much for this parser ("tree", "selector",
    "soup" or "article"). ``size`` is in bytes of UTF-8."""
    if markup.depth > DEPTHS[parser]:
        raise too_deep(url, DEPTHS[parser])
    most = (MAX_XML_TAGS if xml else MAX_TAGS)[parser]
    if markup.tags > most:
        raise TooComplex(f"{url} has {markup.tags:,} tags; the limit of {parser} is {most:,}")
    if size > (largest := MAX_BYTES.get(parser, size)):
        raise TooComplex(f"{url} has {size:,} bytes; the limit of {parser} is {largest:,}")


def check_links(links: int, markup: Markup, url: str) -> None:
    """Raises TooComplex when the distinct links would hold up the worker after the parse."""
    most = MAX_LINKS - markup.tags // 3
    if links > most:
        raise TooComplex(f"{url} has more than {most:,} distinct links")


def _step(tag: tuple[bytes, bytes]) -> int:
    """By how much the tag changes the depth of XML."""
    start, end = tag
    return -1 if end else 1 if start and not start.endswith(b"/") else 0


def _is_harmless(html: bytes) -> bool:
    """Whether the page has too little of everything to take long. Most pages do."""
    size, tags = len(html), html.count(b"<")
    if size < _MEDIUM and tags <= _FEW:
        return True
    if size > _LARGE or tags > _BALANCED or html.count(b">") > tags + _FEW:
        return False
    if size >= _MEDIUM and _has_long_tag(html):
        return False
    if tags <= _FEW:
        return True
    if tags > _MANY and _unbalanced(html) > _FEW:
        return False
    # At most three equal ones are recreated ("Noah's Ark clause").
    starts = tags - html.count(b"</")
    return 3 * starts * len(set(_FORMATTED.findall(html))) <= MAX_CLONES


def _has_long_tag(html: bytes) -> bool:
    """Whether a tag may have more than ``_SEPARATORS`` attributes. Around any tag of ``_LONG``,
    half as many bytes have no ">". So have scripts and data, but few of them look like a tag."""
    block, end = _LONG // 2, 0
    for at in range(0, len(html) - block, block):
        if at < end or html.find(b">", at, at + block) >= 0:
            continue
        end = html.find(b">", at + block) % (len(html) + 1)
        start = _START.search(html, html.rfind(b">", 0, at) + 1, end)
        if start is None:
            continue
        tag = html[start.start() : end]
        if len(tag) - len(tag.translate(None, b" \t\n\r\f/\"'")) > _SEPARATORS:
            return True
    return False


def _unbalanced(html: bytes) -> int:
    """How many start tags lack an end tag of their name, and vice versa."""
    count = Counter(_NAME.findall(html.lower()))
    starts = {name.removeprefix(b"/") for name in count} - VOID
    return sum(abs(count[name] - count[b"/" + name]) for name in starts)
