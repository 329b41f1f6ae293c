"""Capture: one fetch as it is archived, and what refers to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Headers = tuple[tuple[str, str], ...]

# Why a body is not complete, in the words of the WARC standard (5.13).
TRUNCATED = ("length", "time", "disconnect", "unspecified")


class CapturePlace(NamedTuple):
    """Where the record of a capture is: the name of its segment, and a range of bytes there."""

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
    """``body`` is what was received after decompression, and ``headers`` are those received with
    it. ``fetched_at``: seconds since the epoch. ``sent_body`` belongs to ``sent``, the headers of
    the request. ``address`` is the IP address of the server, or "". ``truncated``: why the body was
    cut, one of TRUNCATED, or "". ``rendered``: the body is the DOM of a browser, not what the
    server sent. ``original``: the body is archived already, so that it is only referred to.

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
