"""Sharing: what a request needs not to fetch, because the store of pages has it, and what it needs
not to parse, because it was parsed before."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from crawlframe.actions import keeps_page
from crawlframe.downloaders import BROWSER
from crawlframe.links import host_of, hostname_of
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.node.worker.page_source import Asked, Found, PageSource, Same
from crawlframe.outcome import Outcome, Verdict
from crawlframe.pages.key import key_of
from crawlframe.pages.packing import digest_of
from crawlframe.pages.results import Results
from crawlframe.pages.stored import renewed, response_of, tags_of
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.secret import Secret
from crawlframe.stored_page import StoredPage

READING = ("GET", "HEAD")  # methods whose requests may be conditional
WAITING = 300_000  # milliseconds for which a page is reserved whose request waits for its host
LONGER = 30_000  # beyond the timeout of the fetch, for which it is reserved meanwhile
POLL, MAX_POLL = (
    500,
    10_000,
)  # milliseconds until a request looks again that waits for another one's
SHARED = "shared"  # why it waits
# Counters of a task.
STORED, NOT_MODIFIED = "store/stored", "store/not_modified"
SAME_BYTES, TAKEN_OVER, SAME_CONTENT = "store/same_bytes", "store/taken_over", "store/same_content"
MAX_DETAIL = 1000  # characters of the URL of a page with the same content


@dataclass(slots=True)
class Shared:
    """``response``: from the store, so nothing is fetched. ``previous``: the page as it was kept
    last, with its body. ``waits``: the outcome has ended, because another request fetches it."""

    response: Response | None = None
    previous: StoredPage | None = None
    body: bytes | None = None
    waits: bool = False
    conditional: bool = False

    @property
    def spares_fetch(self) -> bool:
        """Whether the request is not sent."""
        return self.waits or self.response is not None

    def ask(self, request: Request) -> Request:
        """The request as it is sent: conditional, if the page may have stayed as it was."""
        page = self.previous
        if not self.conditional or page is None or self.body is None:
            return request
        own = {name.lower() for name in request.headers}
        if own & {"if-none-match", "if-modified-since", "range"}:
            self.conditional = False
            return request
        more = {}
        if page.etag:
            more["If-None-Match"] = tags_of(page.etag)
        if page.modified:
            more["If-Modified-Since"] = page.modified
        if not more:
            self.conditional = False
            return request
        return request.replace(headers={**request.headers, **more})

    async def complete(self, download: Awaitable[Response], request: Request) -> Response:
        """The response of the download; of one that says 304, that of the store."""
        response = await download
        page, body = self.previous, self.body
        if page is None or response.file is not None:
            return response
        if response.status == 304 and self.conditional and body is not None:
            return renewed(page, request, body, response)
        if response.status == page.status:
            response.unchanged = digest_of(response.body) == page.digest
        return response


class Sharing:
    """Of one worker. ``source``: None: there is no store."""

    def __init__(self, source: PageSource | None) -> None:
        self._source = source

    async def find(
        self, outcome: Outcome, crawl: TaskCrawl, request: Request, *, apart: bool
    ) -> Shared:
        """What the store has for a request. ``apart``: it does not wait for its host. Where no page
        is fresh, and another request fetches it, the outcome has ended, to look again later."""
        settings = crawl.settings
        if self._source is None or not crawl.uses_store:
            return Shared()
        if request.options.save or keeps_page(request.options.actions):
            return Shared()
        outcome.key = page_key(crawl, request)
        if outcome.redirects:  # it was looked for before the first of them
            outcome.reserved = settings.max_age > 0
            return Shared()
        reading = request.method in READING
        reading &= (request.downloader or settings.downloader) != BROWSER
        conditional = settings.conditional and reading
        lasts = 0
        if settings.max_age:
            lasts = WAITING if apart else round(1000 * settings.timeout) + LONGER
        found = await self._source.find(
            Asked(
                outcome.key,
                host_of(request.url),
                outcome.rid,
                settings.max_age,
                lasts,
                conditional and not apart,
            )
        )
        outcome.reserved = found.reserved
        if found.waits:
            delay = max(POLL, min(found.waits, MAX_POLL))  # the longer it lasts, the less often
            outcome.end(Verdict.DEFER, SHARED, "another task fetches this page", delay=delay)
            return Shared(waits=True)
        return self._shared(found, crawl, request, outcome, conditional)

    def _shared(
        self, found: Found, crawl: TaskCrawl, request: Request, outcome: Outcome, conditional: bool
    ) -> Shared:
        page, body = found.page, found.body
        if page is None or not crawl.allows(hostname_of(page.url)):
            return Shared()
        if found.fresh and body is not None:
            outcome.budget = None  # nothing is fetched
            outcome.count(STORED)
            response = response_of(page, request, body)
            response.unchanged = True
            return Shared(response, page, body)
        return Shared(None, page, body, conditional=conditional)

    async def take_over(
        self, outcome: Outcome, crawl: TaskCrawl, request: Request, shared: Shared, got: Response
    ) -> None:
        """Notes what came of a page, and finds what need not be parsed again: then ``earlier`` of
        the outcome is what the callback would yield."""
        if self._source is None or not crawl.uses_store or got.file is not None:
            return
        settings = crawl.settings
        if got.not_modified:
            outcome.status, outcome.size = 304, 0
            outcome.count(NOT_MODIFIED)
        elif got.unchanged and got.stored is None:
            outcome.count(SAME_BYTES)
        if settings.skip_unchanged:
            outcome.signature = _signature(outcome, crawl, request)
            outcome.requests = []
            page = shared.previous
            if page is not None and got.unchanged and page.signature == outcome.signature:
                outcome.earlier = await self._source.results(page)
                if outcome.earlier is not None:
                    outcome.count(TAKEN_OVER)
                    return
        if settings.same_content == "skip" and got.body:
            asked = Same(outcome.task, outcome.rid, digest_of(got.body))
            if url := await self._source.same_content(asked):
                outcome.earlier = Results([], [])
                outcome.signature = b""
                outcome.detail = f"the same content as {url[:MAX_DETAIL]}"
                outcome.count(SAME_CONTENT)


def earlier_of(outcome: Outcome) -> Callable[[], Iterator[Any]] | None:
    """In place of a callback that need not run: yields what it has yielded before."""
    earlier = outcome.earlier
    if earlier is None:
        return None

    def again() -> Iterator[Any]:
        yield from map(msgspec.json.decode, earlier.items)
        yield from map(Request.decode, earlier.requests)

    return again


def page_key(crawl: TaskCrawl, request: Request) -> bytes:
    """What the page of a request is found by."""
    downloader = request.downloader or crawl.settings.downloader
    return key_of(request, crawl.settings, _owner(crawl, request), downloader)


def _owner(crawl: TaskCrawl, request: Request) -> str:
    """Whose page it is, if it may be another one for others: that of a login, of cookies, or of
    what middlewares add."""
    personal = (
        request.options.session is not None
        or crawl.middlewares is not None
        or (crawl.settings.cookies and bool(crawl.cookies.related(request.url)))
    )
    return owner_of(crawl) if personal else ""


def owner_of(crawl: TaskCrawl) -> str:
    """Names a spider with its arguments."""
    given = msgspec.json.encode(crawl.spec.arguments, enc_hook=_revealed, order="deterministic")
    return f"{crawl.spec.spider}\0{hashlib.blake2b(given, digest_size=16).hexdigest()}"


def _revealed(value: Any) -> str:
    return value.reveal() if isinstance(value, Secret) else repr(value)


def _signature(outcome: Outcome, crawl: TaskCrawl, request: Request) -> bytes:
    """Equal where the same code gets the same page with the same data."""
    plain = request.replace(depth=0, priority=0, dont_filter=False).encode()
    digest = hashlib.blake2b(plain, digest_size=16)
    digest.update(f"\0{outcome.version}\0{owner_of(crawl)}".encode())
    return digest.digest()
