"""Kinds: the sorts of bodies that a response may have."""

from __future__ import annotations

import re

_MARKUP = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(\?xml)?")
_XML_PROLOGUE_IS_HTML = re.compile(rb"<html", re.I)


def kind_of(essence: str, body: bytes) -> str:
    """Returns "html", "xml", "json", "text" or "binary". ``essence`` is the Content-Type without
    parameters, in lower case; if it is empty, the first bytes decide."""
    if essence in ("text/html", "application/xhtml+xml"):
        return "html"
    if essence.endswith(("/xml", "+xml")):
        return "xml"
    if essence.endswith(("/json", "+json")):
        return "json"
    if essence.startswith("text/") or essence.endswith("/javascript"):
        return "text"
    if essence:
        return "binary"
    markup = _MARKUP.match(body)
    if markup is None:
        return "binary" if b"\0" in body[:1024] else "text"
    declares_xml = markup[1] and not _XML_PROLOGUE_IS_HTML.search(body, 0, 1024)
    return "xml" if declares_xml else "html"
