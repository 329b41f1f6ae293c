"""XHTML that is parsed by the rules of HTML, which do not treat ``<script/>`` as a complete element
and take the rest of the page as its text."""

from __future__ import annotations

import re

_HEAD = 1024  # bytes that contain a page's declaration
_DECLARED = re.compile(rb"\A\s*<\?xml\s|<!doctype[^>]*xhtml|<html[^>]*\sxmlns\s*=")
# A tag of an element that cannot be self-closing in HTML, or a comment. Attributes are as in HTML,
# with or without value and quotes. It matches up to the end of the page if the tag is left open,
# so that nothing is read twice.
_TAG = re.compile(
    rb"<!--|<(iframe|noembed|noframes|noscript|plaintext|script|style|template|textarea|title|xmp)"
    rb"(?=[\s/>])(?:\s++|/(?!>)"
    rb"|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>][^\s>]*+))?+)*+(/?)(?:>|\Z)"
)
_WITH_MARKUP = (b"noscript", b"template")  # their content has markup; others contain text


def is_declared(html: bytes) -> bool:
    """Whether the page declares that it is XHTML."""
    head = html[:_HEAD].lower()
    if b"xml" in head or b"xhtml" in head:  # few pages are, and this test is fast
        return _DECLARED.search(head) is not None
    return False


def with_end_tags(html: bytes) -> bytes:
    """The page with ``<script></script>`` for ``<script/>`` and the like; itself if unchanged."""
    pieces, done, place = [], 0, 0
    while match := _TAG.search(html, place):
        name = match[1]
        if name is None:
            place = html.find(b"-->", match.end())
        elif match[2]:
            pieces += [html[done : match.start(2)], b"></", name, b">"]
            done = place = match.end()
        elif name in _WITH_MARKUP:
            place = match.end()
        else:
            place = html.find(b"</" + name, match.end())
        if place < 0:
            break
    return b"".join([*pieces, html[done:]]) if pieces else html
