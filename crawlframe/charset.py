"""Which character encoding a body is in, by the rules of browsers (w3lib knows their labels)."""

from __future__ import annotations

import codecs
import re

_UTF8_HEADER = re.compile(r'charset\s*=\s*["\']?\s*utf-?8["\']?\s*(?:;|$)', re.I)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, which begins alike
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FALLBACK = "cp1252"  # what browsers take when all else fails
_SAMPLE = 1 << 16  # bytes looked at for a guess, which is slow


def encoding_of(body: bytes, content_type: str | None, kind: str) -> str:
    """Python's name of the encoding. ``kind`` is that of a Response."""
    for bom, name in _BOMS:
        if body.startswith(bom):
            return name
    if content_type and _UTF8_HEADER.search(content_type):
        return "utf-8"
    from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding

    declared = http_content_type_encoding(content_type)
    if declared in ("utf-16", "utf-32"):
        return f"{declared}-le"  # without a mark, as browsers read it
    if declared is None and kind in ("html", "xml"):
        declared = html_body_declared_encoding(body)
        if declared and declared.startswith(("utf-16", "utf-32")):
            declared = "utf-8"  # it was read as ASCII, so it cannot be
    if declared is not None:
        return declared
    try:
        body.decode()
    except UnicodeDecodeError:
        return _FALLBACK if kind == "binary" else _guess(body)
    return "utf-8"


def _guess(body: bytes) -> str:
    from charset_normalizer import from_bytes

    if len(body) > _SAMPLE:  # cut where no character of any encoding is torn apart
        body = body[: body.rfind(b"\n", 0, _SAMPLE) + 1 or _SAMPLE]
    best = from_bytes(body).best()
    return codecs.lookup(best.encoding).name if best is not None else _FALLBACK
