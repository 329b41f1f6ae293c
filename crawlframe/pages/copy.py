"""PageCopy: a fetched page on its way into the store of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from crawlframe.response.coded_body import CodedBody

TEMPLATES = 8  # families of URLs of a callback that have samples of their own
ITEM = "item"  # the reason of a page that is done, and had an item that did not fit


class HeldBytes:
    """Bytes of bodies that wait to be stored. ``taken`` is counted by the event loop alone,
    ``given`` by the commit thread alone."""

    __slots__ = ("given", "taken")

    def __init__(self) -> None:
        self.taken = self.given = 0

    @property
    def size(self) -> int:
        return self.taken - self.given


class StoredBody(NamedTuple):
    """The place of a body: the number of its segment, and the bytes of its record there."""

    segment: int
    offset: int
    length: int


@dataclass(slots=True)
class PageCopy:
    """``headers``: ``sent`` and ``received``, lists of pairs without secrets, ``rendered`` for the
    DOM of a browser, ``redirects``, pairs of status and URL, if there were any, and ``changed``, if
    middlewares changed it, or perhaps raised an error. ``body``: after decompression; empty once it
    is ``packed`` or ``archived``. ``key``: finds it for its request; None if it is not found.
    ``reason``: why it is kept; "" for a page that is done. ``fetched_at``: seconds since the epoch;
    None: now. ``tentative``: kept only if the database refuses the request's results. ``sample``:
    the callback of whose samples it is a part; None: it is kept for itself."""

    url: str  # after redirects
    host: str
    method: str
    status: int
    headers: dict[str, Any]
    body: bytes
    record: bytes  # of its request
    held: HeldBytes
    reason: str = ""
    key: bytes | None = None
    etag: str = ""
    modified: str = ""  # the header Last-Modified
    address: str = ""
    fetched_at: float | None = None
    size: int = 0  # bytes of the body
    digest: bytes = b""  # of the body
    coded: CodedBody | None = None  # the body as it was sent
    packed: bytes = b""
    signature: bytes = b""  # of the code that ran its callback; b"": its results are not kept
    requests: list[bytes] | None = None  # records of all that the callback yielded
    place: StoredBody | None = None  # of the body, if it is in a segment
    archived: bool = False  # it has a record there
    tentative: bool = False
    sample: str | None = None
    given: bool = False  # the body is not needed any more

    def give(self) -> None:
        """Drops the body, which is packed, or not needed."""
        if not self.given:
            self.given = True
            self.held.given += len(self.body)
            self.body, self.coded = b"", None


class Results(NamedTuple):
    """The results of a callback: its items as JSON, and the records of all requests that it
    yielded, known ones included."""

    items: list[bytes]
    requests: list[bytes]
