"""StoredPage: a page of the store."""

from __future__ import annotations

from typing import Any, NamedTuple


class StoredPage(NamedTuple):
    """``age``: seconds since it was fetched, or since its server said that it is unchanged, by the
    database's clock. ``rid``: of the request that brought it. ``signature``: of what ran its
    callback; b"" if its results are not kept."""

    number: int
    rid: bytes
    url: str  # after redirects
    status: int
    headers: dict[str, Any]  # as PageCopy has them
    address: str
    etag: str
    modified: str
    fetched_at: float  # seconds since the epoch
    age: float
    body: int  # the number of its body
    digest: bytes
    signature: bytes = b""
