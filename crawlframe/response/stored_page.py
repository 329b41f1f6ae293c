"""StoredPage: a page of the store; NearDuplicate: an earlier page of nearly the same text."""

from __future__ import annotations

from typing import Any, NamedTuple


class StoredPage(NamedTuple):
    """A page of the store. ``age``: seconds since it was fetched, or since its server said that it
    is unchanged, by the database's clock. ``rid``: of the request that brought it. ``signature``:
    of the code that ran its callback; b"" if its results are not kept."""

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
    size: int  # bytes of it
    signature: bytes = b""

    @property
    def sets_cookies(self) -> bool:
        return any(n.lower() == "set-cookie" for n, _ in self.headers.get("received", ()))


class NearDuplicate(NamedTuple):
    """An earlier similar page. ``url``: of the page that came first; "" if its row is gone.
    ``likeness``: estimated share of the pairs of neighbouring words that the two texts have in
    common, from 0.57 to 1; with 10 % of the words changed, about 0.7."""

    url: str
    likeness: float

    def __str__(self) -> str:
        url = self.url or "a page whose row is gone"
        return f"nearly the same text as {url} ({self.likeness:.0%} in common)"
