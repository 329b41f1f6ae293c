"""ContentType: the media type and the charset of a Content-Type header, as browsers read them.

The algorithms are "extract a MIME type" of the WHATWG Fetch standard, and "parse a MIME type" of
MIME Sniffing."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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
