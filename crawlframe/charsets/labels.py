"""Labels of the WHATWG Encoding Standard, and the Python codecs that implement them."""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


MAX_LABEL = 40  # characters; the longest label has 19


def codec_of(label: str) -> str | None:
    """Python's name of the encoding with this label; None when the standard does not have it."""
    label = label.strip("\t\n\f\r ")
    return _codec_of(label) if len(label) <= MAX_LABEL else None


@lru_cache(maxsize=256)
def _codec_of(label: str) -> str | None:
    from webencodings import lookup

    encoding = lookup(label) if label.isascii() else None
    if encoding is None:
        return None
    name: str = encoding.codec_info.name
    return "gb18030" if name == "gbk" else name  # the standard decodes both alike


def encode(text: str, encoding: str) -> bytes:
    """``text`` encoded as browsers send it from a page in this encoding."""
    if encoding == "replacement" or encoding.startswith(("utf-16", "utf-32")):
        encoding = "utf-8"
    return text.encode(encoding, "xmlcharrefreplace")


def encode_query(link: str, encoding: str) -> str:
    """The link with its query encoded like its page; the rest of it is always UTF-8."""
    from urllib.parse import quote

    address, mark, query = link.partition("#")[0].partition("?")
    return (
        address + mark + quote(encode(query, encoding), safe="!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
    )


def _find_codec(name: str) -> codecs.CodecInfo | None:
    """Codecs for the two encodings of the standard that Python lacks."""
    from webencodings import custom

    if name == "x_user_defined":
        info: codecs.CodecInfo = custom.user_codec_info
        return info
    if name == "replacement":
        return codecs.CodecInfo(custom.replacement_codec_info.encode, _replace, name=name)
    return None


def _replace(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
    """Returns one U+FFFD for all input, as in the standard: such encodings were used for
    attacks."""
    size = memoryview(data).nbytes
    return "\ufffd" if size else "", size


codecs.register(_find_codec)
