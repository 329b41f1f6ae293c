"""The character encoding of a body, by the rules of browsers: byte order mark, Content-Type,
declaration in the page; ``detection`` decides where there is none of these.

Only labels of the WHATWG Encoding Standard are accepted. Any other counts as not declared: Python
has codecs that are not character encodings, take quadratic time, or raise."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from crawlframe.charsets.content_type import content_type_of
from crawlframe.charsets.detection import undeclared
from crawlframe.charsets.labels import codec_of

_MARKS = (  # byte order marks, and the first bytes of an XML declaration in UTF-16 without a mark
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, which starts alike
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0?\0x\0", "utf-16-le"),
    (b"\0<\0?\0x", "utf-16-be"),
)
_ANY_MARK = tuple(mark for mark, _ in _MARKS)
_LOOKED_AT = 1 << 16  # bytes searched for a declaration

# The WHATWG prescan. Each character is matched once: no group backtracks.
_ATTRIBUTE = (
    rb"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+))?+)?+"""
)
_TAG_END = rb"""(?:[^>"'=]++|=\s*+(?:"[^"]*+"?|'[^']*+'?)?+|["'])*+>?"""
_TO_META = re.compile(
    rb"(?:[^<]++|<!--(?s:.*?)(?:-->|\Z)|<(?!meta[\s/]|body[\s/>])(?:/?[a-z]" + _TAG_END + rb")?+)*+"
    rb"<meta(?=[\s/])",
    re.I,
)
_META_ATTRIBUTE = re.compile(rb"[\s/]*+(?:(>)|" + _ATTRIBUTE + rb")")
_IN_CONTENT = re.compile(rb"charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"']+))", re.I)
_XML = re.compile(rb"\s*<\?xml\s[^>]{0,1000}?\bencoding\s*=\s*[\"']\s*([^\"'\s>]+)")


def encoding_of(body: bytes, content_type: str | None, kind: str, url: str = "") -> str:
    """Python's name of the encoding. ``kind`` is as in Response; ``url`` is the source of the body:
    its host and top-level domain decide when nothing else does."""
    if body.startswith(_ANY_MARK):
        return next(name for mark, name in _MARKS if body.startswith(mark))
    if content_type and (declared := declared_in(content_type)):
        return declared
    if kind in ("html", "xml") and (declared := _declared(body[:_LOOKED_AT], kind)):
        return declared
    return undeclared(body, kind, url)


@lru_cache(maxsize=256)
def declared_in(content_type: str) -> str | None:
    """Python's name of the encoding that a Content-Type names; None if it names none."""
    label = content_type_of(content_type).charset
    return codec_of(label) if label else None


def _declared(head: bytes, kind: str) -> str | None:
    """The encoding the page declares. It was read as ASCII, so UTF-16 cannot be true."""
    label = _of_meta(head) if kind == "html" else None
    if label is None and (match := _XML.match(head)):
        label = codec_of(match[1].decode("latin-1"))
    if label and label.startswith("utf-16"):
        return "utf-8"
    return "cp1252" if label == "x-user-defined" else label


def _of_meta(head: bytes) -> str | None:
    place = 0
    while meta := _TO_META.match(head, place):
        attributes, place = _attributes(head, meta.end())
        label = attributes.get(b"charset")
        if label is None and attributes.get(b"http-equiv", b"").lower() == b"content-type":
            match = _IN_CONTENT.search(attributes.get(b"content", b""))
            label = (match[1] or match[2] or match[3]) if match else None
        if label and (name := codec_of(label.decode("latin-1"))):
            return name
    return None


def _attributes(head: bytes, place: int) -> tuple[dict[bytes, bytes], int]:
    """The attributes of the tag, the first of each name, and where the tag ends."""
    found: dict[bytes, bytes] = {}
    while (match := _META_ATTRIBUTE.match(head, place)) and match.end() > place:
        place = match.end()
        if match[1]:
            break
        found.setdefault(match[2].lower(), match[3] or match[4] or match[5] or b"")
    return found, place
