"""StoredPage: a page of the store, and the response that it becomes again."""

from __future__ import annotations

from typing import Any, NamedTuple

from crawlframe.rendered import RenderedResponse
from crawlframe.request import Request
from crawlframe.response import Response

# Headers of a stored page that do not describe its body any more, or were masked.
LEFT_OUT = frozenset({"set-cookie", "set-cookie2", "content-encoding", "transfer-encoding"})
# Those that a 304 does not change: RFC 9111, 3.2.
OF_BODY = frozenset({"content-encoding", "content-length", "content-range", "content-type"})


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

    def response(self, request: Request, body: bytes) -> Response:
        """The response to ``request``, with this body."""
        headers = [
            (name, value)
            for name, value in self.headers.get("received", ())
            if name.lower() not in LEFT_OUT
        ]
        kind = RenderedResponse if self.headers.get("rendered") else Response
        made = kind(self.url, self.status, headers, body, request, address=self.address)
        made.stored = self
        return made

    def renewed(self, request: Request, body: bytes, answer: Response) -> Response:
        """The response after a 304, with the headers that it brought."""
        made = self.response(request, body)
        new = [(n, v) for n, v in answer.headers.items() if n.lower() not in OF_BODY]
        names = {name.lower() for name, _ in new}
        old = [(n, v) for n, v in made.headers.items() if n.lower() not in names]
        renewed = Response(
            made.url,
            made.status,
            [*old, *new],
            body,
            request,
            redirects=answer.redirects,
            elapsed=answer.elapsed,
            address=answer.address,
        )
        renewed.sent, renewed.robots = answer.sent, answer.robots
        renewed.not_modified = renewed.unchanged = True
        return renewed


def tags_of(etag: str) -> str:
    """What If-None-Match asks for: the tag, and the one that a server has made it of when it
    compressed the page: it may compare with either."""
    weak, tag = ("W/", etag[2:]) if etag.startswith("W/") else ("", etag)
    if len(tag) < 2 or not tag.startswith('"') or not tag.endswith('"'):
        return etag  # not as it should be, but that server's own
    for suffix in ("--gzip", "-gzip", ";gzip", ":gzip", "-br", ";br", "-zstd", "-df"):
        if tag.endswith(suffix + '"'):
            return f'{etag}, {weak}{tag[: -len(suffix) - 1]}"'
    return etag
