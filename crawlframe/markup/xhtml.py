"""XHTML that is read by the rules of HTML: these do not know that ``<script/>`` is a whole element,
and take the rest of the page for its text."""

from __future__ import annotations

import re

_HEAD = 1024  # bytes in which a page declares what it is
_DECLARED = re.compile(rb"\A\s*<\?xml\s|<!doctype[^>]*xhtml|<html[^>]*\sxmlns\s*=")
# A tag of an element that cannot end itself in HTML, or a comment. Attributes are as in HTML, with
# or without value and quotes. It matches up to the end of the page if the tag is left open, so
# that nothing is read twice.
_TAG = re.compile(
    rb"<!--|<(iframe|noembed|noframes|noscript|plaintext|script|style|template|textarea|title|xmp)"
    rb"(?=[\s/>])(?:\s++|/(?!>)"
    rb"|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'>][^\s>]*+))?+)*+(/?)(?:>|\Z)"
)
_WITH_MARKUP = (b"noscript", b"template")  # their content is read, others' is text


def is_declared(html: bytes) -> bool:
    """Whether the page says that it is XHTML."""
    head = html[:_HEAD].lower()
    if b"xml" in head or b"xhtml" in head:  # few are, and this is quick
        return _DECLARED.search(head) is not None
    return False


def with_end_tags(html: bytes) -> bytes:
    """The page with ``<script></script>`` for ``<script/>``, and so on; else the same object."""
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
