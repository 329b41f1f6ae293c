"""StoredCopy: the page of a request as the store has it."""

from __future__ import annotations

from dataclasses import dataclass

from crawlframe.pages.stored import digest_of, renewed, tags_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.response.stored_page import StoredPage


@dataclass(slots=True)
class StoredCopy:
    """``response``: from the store, so nothing is fetched. ``previous``: the page as it was kept
    last, with its body. ``waits``: the outcome has ended, because another request fetches it."""

    response: Response | None = None
    previous: StoredPage | None = None
    body: bytes | None = None
    waits: bool = False
    conditional: bool = False

    def ask(self, request: Request) -> Request:
        """The request as it is sent: conditional, if the page may have stayed as it was."""
        page = self.previous
        more = {}
        # A page that was reached by a redirect says nothing of the URL that redirected.
        if self.conditional and page is not None and self.body is not None:
            if page.etag:
                more["If-None-Match"] = tags_of(page.etag)
            if page.modified:
                more["If-Modified-Since"] = page.modified
        self.conditional = bool(more) and page is not None and page.url == request.url
        if not self.conditional:
            return request
        return request.replace(headers={**request.headers, **more})

    def complete(self, response: Response, request: Request) -> Response:
        """Returns the response; in place of a 304, the stored page."""
        page, body = self.previous, self.body
        if page is None or response.file is not None:
            return response
        if response.status == 304 and self.conditional and body is not None:
            return renewed(page, request, body, response)
        if response.status == page.status:
            response.unchanged = digest_of(response.body) == page.digest
        return response
