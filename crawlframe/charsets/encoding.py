"""The character encoding of a body, by the rules of browsers: byte order mark, Content-Type,
declaration in the page; ``detection`` decides where there is none of these.

Only labels of the WHATWG Encoding Standard are accepted. Any other counts as not declared: Python
has codecs that are not character encodings, take quadratic time, or raise.

A Content-Type is read as browsers read it, by the algorithms "extract a MIME type" of the WHATWG
Fetch standard, and "parse a MIME type" of MIME Sniffing."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import NamedTuple

from crawlframe.charsets.detection import undeclared
from crawlframe.charsets.labels import codec_of

MAX_CONTENT_TYPE = 4096  # characters that are worth reading

_SPACE = "\t\n\r "
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"(?:[^"\\]++|\\.)*+\\?"?'
# One value of several, which commas separate.
_VALUE = re.compile(rf'((?:[^",]++|{_QUOTED})*+)(?:,|\Z)', re.S)
_TYPE = re.compile(rf"[{_SPACE}]*+({_TOKEN}/{_TOKEN})[{_SPACE}]*+(?:;|\Z)")
_PARAMETER = re.compile(rf"[{_SPACE}]*+([^;=]*+)(?:=(?:({_QUOTED})[^;]*+|([^;]*+)))?(?:;|\Z)", re.S)
_QUOTABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*+")
# Of a value that has no valid type.
_NEAR_TYPE = re.compile(r"[^\s/;(,]+/[^\s;(,]+")

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


class ContentType(NamedTuple):
    """``essence``: the type without its parameters, in lower case, "" if there is none.
    ``charset``: the label that it names, None if it names none."""

    essence: str = ""
    charset: str | None = None


@lru_cache(maxsize=256)
def content_type_of(header: str) -> ContentType:
    """Reads the values of all headers Content-Type of a response, joined with commas. The last type
    counts; it has the charset of an equal one before it, if it names none."""
    found = ContentType()
    for value in _VALUE.findall(header):
        named = _TYPE.match(value)
        if named is None or named[1] == "*/*":
            continue
        essence, charset = named[1].lower(), _charset_in(value[named.end() :])
        if essence == found.essence and charset is None:
            charset = found.charset
        found = ContentType(essence, charset)
    if not found.essence and (near := _NEAR_TYPE.match(header.strip())) and near[0] != "*/*":
        return ContentType(near[0].lower())
    return found


def _charset_in(parameters: str) -> str | None:
    for name, quoted, plain in _PARAMETER.findall(parameters):
        if name.lower() != "charset":
            continue
        value = plain.rstrip(_SPACE)
        if quoted:
            value = re.sub(r"\\(.)", r"\1", quoted[1:].removesuffix('"'), flags=re.S)
        if (quoted or value) and _QUOTABLE.fullmatch(value):
            return str(value)
    return None


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
