"""The media type of a file: the Content-Type, checked against the first bytes.

A server that answers with a login page in place of an image rarely changes the Content-Type. The
signatures come from the MIME Sniffing standard of the WHATWG, and from common archives."""

from __future__ import annotations

import re
from collections.abc import Iterable

HEAD = 1445  # bytes that are looked at, as in the standard
OCTETS = "application/octet-stream"
PLAIN = "text/plain"

# A media type, or all of one kind: image/*.
PATTERN = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:\*|[a-z0-9!#$&^_.+-]+)")

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBPVP", "image/webp"),
    (0, b"\x00\x00\x01\x00", "image/x-icon"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"%!PS-Adobe-", "application/postscript"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"OggS\x00", "application/ogg"),
    (8, b"WAVE", "audio/wave"),
    (8, b"AVI ", "video/avi"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
    (0, b"PAR1", "application/vnd.apache.parquet"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_IN_RIFF = frozenset({"image/webp", "audio/wave", "video/avi"})
_SIGNED = frozenset(kind for _, _, kind in _SIGNATURES)
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/vnd.microsoft.icon": "image/x-icon",
    "application/x-pdf": "application/pdf",
    "application/x-gzip": "application/gzip",
    "application/x-zip": "application/zip",
    "application/x-zip-compressed": "application/zip",
    "audio/mp3": "audio/mpeg",
    "audio/wav": "audio/wave",
    "audio/x-wav": "audio/wave",
    "video/x-msvideo": "video/avi",
}
# Types from servers that know nothing about a file.
_GENERIC = frozenset(
    {"", OCTETS, "binary/octet-stream", "application/download", "application/force-download",
     "application/x-download", PLAIN}
)  # fmt: skip
# Formats that many others are made of, with the kinds of those.
_CONTAINERS = {
    "application/zip": ("application", "image"),
    "application/gzip": ("application", "image"),  # svgz
    "application/x-ole-storage": ("application",),
    "application/ogg": ("audio", "video"),
    "video/mp4": ("audio", "video", "application", "image"),
    "video/webm": ("audio", "video"),
    "image/tiff": ("image",),
    "audio/mpeg": ("audio",),
}
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\x0c\r ]*<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a"
    rb"|style|title|b|body|br|p|meta|!--)[\s>]",
    re.IGNORECASE,
)
_XML = re.compile(rb"(?:\xef\xbb\xbf)?[\t\n\x0c\r ]*<(?:\?xml|svg[\s>])")
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def media_type(declared: str, head: bytes) -> str:
    """Returns the type of a file. ``declared`` is the Content-Type without its parameters, ``head``
    are the first HEAD bytes. If they contradict each other, the bytes decide."""
    declared = _ALIASES.get(declared, declared)
    found = _sniffed(head)
    if not found:
        return _unsigned(head) if declared in _GENERIC or declared in _SIGNED else declared
    return declared if found == declared or _fits(declared, found) else found


def essence_of(content_type: str) -> str:
    """A Content-Type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_generic(declared: str) -> bool:
    """Whether a declared type says nothing about a file."""
    return declared in _GENERIC


def is_wanted(kind: str, wanted: Iterable[str]) -> bool:
    """Whether a media type is one of ``wanted``, which may contain ``image/*``."""
    kind = _ALIASES.get(kind, kind)
    family = f"{kind.partition('/')[0]}/*"
    return any(_ALIASES.get(one, one) in (kind, family, "*/*") for one in wanted)


def _sniffed(head: bytes) -> str:
    """The type that the first bytes show; "" if they show none."""
    for at, signature, kind in _SIGNATURES:
        if head.startswith(signature, at) and (kind not in _IN_RIFF or head.startswith(b"RIFF")):
            return kind
    if _HTML.match(head):
        return "text/html"
    return "text/xml" if _XML.match(head) else ""


def _unsigned(head: bytes) -> str:
    return PLAIN if head and not _BINARY.search(head) else OCTETS


def _fits(declared: str, found: str) -> bool:
    """Whether a file of the declared type may look like one of the found type."""
    if declared in _GENERIC or declared in _SIGNED:
        return False
    if found in ("text/xml", "text/html"):
        return declared.endswith(("/xml", "+xml"))
    return declared.partition("/")[0] in _CONTAINERS.get(found, ())
