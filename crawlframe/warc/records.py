"""Records of WARC 1.1 (ISO 28500:2017, https://iipc.github.io/warc-specifications/), as bytes.

A capture becomes a ``response``, or a ``revisit`` if its body is archived already, and a
``request``; a ``response`` for each redirect. The DOM of a browser is no message of HTTP: it
becomes a ``resource`` of the same URL, and a ``metadata`` record has the server's answer.

Bodies are stored after decompression. As in the archives of Browsertrix, headers of undone codings
get the prefix X-Orig-, so that replay tools do not undo them again."""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from os import urandom
from typing import NamedTuple
from urllib.parse import quote

from crawlframe.base.urls import host_of, target_of

Headers = tuple[tuple[str, str], ...]
# Why a body is not complete, in the words of the WARC standard (5.13).
TRUNCATED = ("length", "time", "disconnect", "unspecified")
END = b"\r\n\r\n"
SAME_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
CONFORMS = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
ORIGINAL = "X-Orig-"
FIELDS = "application/warc-fields"
REQUEST, RESPONSE = "application/http; msgtype=request", "application/http; msgtype=response"
# Headers that describe the body as it was sent, which is not the stored body.
_CODED = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_TOKEN = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_BREAKS = re.compile(r"[\r\n\0]+")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class CapturePlace(NamedTuple):
    """The place of a capture's record: the name of its segment, and a range of bytes there."""

    segment: str
    offset: int
    length: int


class Original(NamedTuple):
    """The capture that has the same body: WARC-Target-URI and WARC-Date of its record. Both may be
    "", if they are not known."""

    uri: str = ""
    date: str = ""


class Redirection(NamedTuple):
    """A response that redirected. ``headers`` are those received; without, only the target is
    known."""

    url: str
    status: int
    target: str
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Capture:
    """A page to archive. ``body`` is as received, after decompression, and ``headers`` came with
    it. ``fetched_at``: seconds since the epoch. ``sent_body`` belongs to ``sent``, the headers of
    the request. ``address`` is the IP address of the server, or "". ``truncated``: why the body was
    cut, one of TRUNCATED, or "". ``rendered``: the body is the DOM of a browser, not the server's.
    ``original``: the body is archived already, so that it is only referred to.

    Everything is written as it is: secrets are to be removed before."""

    url: str
    status: int
    headers: Headers
    body: bytes
    fetched_at: float
    method: str = "GET"
    sent: Headers = ()
    sent_body: bytes = b""
    address: str = ""
    truncated: str = ""
    rendered: bool = False
    redirects: tuple[Redirection, ...] = ()
    original: Original | None = None

    def __post_init__(self) -> None:
        if self.truncated and self.truncated not in TRUNCATED:
            raise ValueError(f"truncated is {self.truncated!r}, not one of {', '.join(TRUNCATED)}")


class Record(NamedTuple):
    """The parts of a record, in order."""

    header: bytes
    head: bytes  # of the HTTP message; "" without
    payload: bytes

    def parts(self) -> tuple[bytes, ...]:
        return self.header, self.head, self.payload, END


def of_capture(capture: Capture, *, block_digests: bool = False) -> Iterator[Record]:
    """The records of a capture; the first has the body, or refers to it.

    With ``block_digests``, all records have a digest of their block. For a page it takes half as
    long as the compression, for the few bytes that the digest of the payload leaves out."""
    uri, own = visible(capture.url), _new_id()
    date = f"WARC-Date: {date_of(capture.fetched_at)}\r\n"
    place = f"{date}WARC-Target-URI: {uri}\r\n"
    if capture.address and not capture.rendered:
        place += f"WARC-IP-Address: {capture.address}\r\n"
    yield _of_body(capture, own, place, block_digests)
    place += f"WARC-Concurrent-To: {own}\r\n"
    yield _of_request(capture, uri, place, block_digests)
    if capture.rendered:
        yield _of_answer(capture, place)
    for redirect in capture.redirects:
        yield _of_redirect(redirect, date)


def of_file(name: str, software: str, created_at: float) -> Record:
    """The ``warcinfo`` at the start of a file."""
    fields = (("software", software), ("format", "WARC File Format 1.1"), ("conformsTo", CONFORMS))
    given = f"WARC-Date: {date_of(created_at)}\r\nWARC-Filename: {name}\r\n"
    return _record("warcinfo", _new_id(), given, FIELDS, b"", _fields(fields), True)


def date_of(seconds: float) -> str:
    """A WARC-Date. It has microseconds, because a revisit names its original by it."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def digest_of(*parts: bytes) -> str:
    """SHA-1 in Base32, as nearly all archives have it, and tools that look pages up by it."""
    digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return f"sha1:{b32encode(digest.digest()).decode()}"


def _of_body(capture: Capture, own: str, given: str, block_digests: bool) -> Record:
    kind, content_type, head, payload = "response", RESPONSE, b"", capture.body
    if capture.rendered:
        kind, content_type = (
            "resource",
            _BREAKS.sub(" ", _first(capture.headers, "content-type")) or "text/html",
        )
    else:
        head = _answer_head(capture.status, capture.headers, len(payload))
    if capture.original is not None:
        kind, payload = "revisit", b""
        given += f"WARC-Profile: {SAME_PAYLOAD}\r\n"
        if capture.original.uri:
            given += (
                f"WARC-Refers-To-Target-URI: {visible(capture.original.uri)}\r\n"
                f"WARC-Refers-To-Date: {capture.original.date}\r\n"
            )
    given += f"WARC-Payload-Digest: {digest_of(capture.body)}\r\n"
    if capture.truncated:
        given += f"WARC-Truncated: {capture.truncated}\r\n"
    return _record(kind, own, given, content_type, head, payload, block_digests or not payload)


def _of_request(capture: Capture, uri: str, given: str, block_digests: bool) -> Record:
    method = capture.method if capture.method.isalpha() else _TOKEN.sub("", capture.method)
    sent = _sent(capture.sent, host_of(uri), len(capture.sent_body))
    head = b"%b%b\r\n" % (_encoded(f"{method} {target_of(uri)} HTTP/1.1\r\n"), sent)
    return _record("request", _new_id(), given, REQUEST, head, capture.sent_body, block_digests)


@lru_cache(maxsize=256)  # a spider sends the same again and again
def _sent(headers: Headers, host: str, size: int) -> bytes:
    sent = [(name, value) for name, value in headers if name.lower() != "content-length"]
    if not _first(sent, "host"):
        sent.insert(0, ("Host", host))
    if size:
        sent.append(("Content-Length", str(size)))
    return _fields(sent)


def _of_answer(capture: Capture, given: str) -> Record:
    """The server's headers, where the body is a DOM."""
    fields = [("rendered", "DOM of a browser"), ("status", str(capture.status))]
    if capture.address:
        fields.append(("ip", capture.address))
    fields += [(f"header-{name}", value) for name, value in capture.headers]
    return _record("metadata", _new_id(), given, FIELDS, b"", _fields(fields), True)


def _of_redirect(redirect: Redirection, date: str) -> Record:
    headers = redirect.headers or (("Location", visible(redirect.target)),)
    given = (
        f"{date}WARC-Target-URI: {visible(redirect.url)}\r\n"
        f"WARC-Payload-Digest: {digest_of()}\r\n"
        "WARC-Truncated: unspecified\r\n"  # bodies of redirects are not kept
    )
    head = _answer_head(redirect.status, headers, 0)
    return _record("response", _new_id(), given, RESPONSE, head, b"", True)


def _record(
    kind: str,
    own: str,
    given: str,
    content_type: str,
    head: bytes,
    payload: bytes,
    block_digest: bool,
) -> Record:
    """``given``: lines of the header that are ASCII."""
    if block_digest:
        given += f"WARC-Block-Digest: {digest_of(head, payload)}\r\n"
    header = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {own}\r\n{given}"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(head) + len(payload)}\r\n\r\n"
    )
    return Record(_encoded(header), head, payload)


def _answer_head(status: int, headers: Iterable[tuple[str, str]], size: int) -> bytes:
    """The head of a message with a body of ``size`` bytes that has no codings."""
    stored = [
        (f"{ORIGINAL}{name}" if name.lower() in _CODED else name, value) for name, value in headers
    ]
    stored.append(("Content-Length", str(size)))
    # Archives have HTTP/1.1, whatever the protocol was: readers know no other status line.
    return _head(f"HTTP/1.1 {status} {_REASONS.get(status, '')}", stored)


def _head(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    return _encoded(f"{first}\r\n") + _fields(headers) + b"\r\n"


def _fields(fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(lines)
    if text.count("\n") > len(lines) or text.count("\r") > len(lines) or "\0" in text:
        lines = [f"{_TOKEN.sub('', name)}: {_BREAKS.sub(' ', value)}\r\n" for name, value in fields]
        text = "".join(lines)
    try:  # as they came: the bytes of a head are read as Latin-1
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(map(_encoded, lines))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _first(headers: Iterable[tuple[str, str]], name: str) -> str:
    return next((value for key, value in headers if key.lower() == name), "")


def visible(url: str) -> str:
    """A URL without spaces, controls and other than ASCII."""
    return url if url.isascii() and url.isprintable() and " " not in url else quote(url, _ASCII)


def _new_id() -> str:
    """A random UUID (RFC 9562, version 4), in a third of the time of the standard library."""
    bits = urandom(16).hex()
    return f"<urn:uuid:{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}>"
