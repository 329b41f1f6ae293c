"""Sharing: what a request needs not to fetch, because the store of pages has it, and what it needs
not to parse, because it was parsed before."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from crawlframe.actions import keeps_page
from crawlframe.downloaders import BROWSER
from crawlframe.links import host_of, hostname_of
from crawlframe.node.worker.backoff import LONGER, MAX_POLL, POLL
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.node.worker.page_source import Asked, PageSource
from crawlframe.outcome import Outcome, Verdict
from crawlframe.pages.key import is_whole, key_of
from crawlframe.pages.packing import digest_of
from crawlframe.pages.stored import renewed, response_of, tags_of
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.stored_page import StoredPage

SHARED = "shared"  # why it waits
# Counters of a task.
STORED, NOT_MODIFIED = "store/stored", "store/not_modified"
SAME_BYTES, TAKEN_OVER = "store/same_bytes", "store/taken_over"
# Statuses of pages that are used again, and headers that make them somebody's.
SHAREABLE = frozenset({200, 203, 404, 410})
PERSONAL = frozenset({"cookie", "authorization"})


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

    async def find(self, outcome: Outcome, crawl: TaskCrawl, request: Request) -> Shared:
        """What the store has for a request. Where no page is fresh, and another request fetches
        it, the outcome has ended, to look again later."""
        settings = crawl.settings
        if self._source is None or not settings.uses_store or not is_whole(request, settings):
            return Shared()
        if request.options.save or keeps_page(request.options.actions):
            return Shared()
        outcome.key = page_key(crawl, request)
        if outcome.redirects:  # it was looked for before the first of them
            outcome.reserved = settings.max_age > 0
            return Shared()
        browser = (request.downloader or settings.downloader) == BROWSER
        found = await self._source.find(
            Asked(
                outcome.key,
                page_key(crawl, request, crawl.owner),
                host_of(request.url),
                outcome.rid,
                partial(_fits, outcome.rid, crawl),
                settings.max_age,
                round(1000 * settings.timeout) + LONGER if settings.max_age else 0,
                settings.conditional and not browser,
            )
        )
        outcome.reserved = found.reserved
        if found.waits:
            delay = max(POLL, min(found.waits, MAX_POLL))  # the longer it lasts, the less often
            outcome.end(Verdict.DEFER, SHARED, "another task fetches this page", delay=delay)
            return Shared(waits=True)
        page, body = found.page, found.body
        if page is None or not found.fresh or body is None:
            return Shared(None, page, body, conditional=settings.conditional and not browser)
        outcome.budget = None  # nothing is fetched
        outcome.count(STORED)
        response = response_of(page, request, body)
        response.unchanged = True
        return Shared(response, page, body)

    async def take_over(
        self, outcome: Outcome, crawl: TaskCrawl, request: Request, shared: Shared, got: Response
    ) -> None:
        """Notes what came of a page, and finds what need not be parsed again: then ``earlier`` of
        the outcome is what the callback would yield."""
        settings = crawl.settings
        if self._source is None or not settings.uses_store or got.file is not None:
            return
        if got.not_modified:
            outcome.status, outcome.size = 304, 0
            outcome.count(NOT_MODIFIED)
        elif got.unchanged and got.stored is None:
            outcome.count(SAME_BYTES)
        if settings.skip_unchanged and request.method == "GET":
            outcome.signature = _signature(outcome, crawl, request)
            outcome.requests = []
            page = shared.previous
            if page is not None and got.unchanged and page.signature == outcome.signature:
                outcome.earlier = await self._source.results(page)
                if outcome.earlier is not None:
                    outcome.count(TAKEN_OVER)


def earlier_of(outcome: Outcome) -> Callable[[], Iterator[Any]] | None:
    """In place of a callback that need not run: yields what it has yielded before."""
    earlier = outcome.earlier
    if earlier is None:
        return None

    def again() -> Iterator[Any]:
        yield from map(msgspec.json.decode, earlier.items)
        yield from map(Request.decode, earlier.requests)

    return again


def page_key(crawl: TaskCrawl, request: Request, owner: str = "") -> bytes:
    """What the page of a request is found by: of one that is the same for all, or of its owner."""
    downloader = request.downloader or crawl.settings.downloader
    return key_of(request, crawl.settings, owner, downloader)


def kept_key(crawl: TaskCrawl, request: Request, response: Response) -> bytes | None:
    """What a page is kept under; None if it is not to be found. It is that of the ``owner``, if it
    may be another one for others: by a login, by cookies, or because its server says so."""
    if not is_whole(request, crawl.settings) or response.status not in SHAREABLE:
        return None
    sent = {name.lower() for name, _ in (response.sent[2] if response.sent else ())}
    control = response.headers.get("Cache-Control", "").lower()
    personal = (
        request.options.session is not None
        or bool(sent & PERSONAL)
        or "Set-Cookie" in response.headers
        or "private" in control
        or "no-store" in control
        or (response.stored is not None and response.stored.headers.get("personal", False))
        # What it calls a block is none for others.
        or crawl.judges_blocks
    )
    return page_key(crawl, request, crawl.owner if personal else "")


def manners_of(crawl: TaskCrawl) -> dict[str, Any]:
    """What was obeyed when a page was fetched, as it is kept with it."""
    return {"robots": crawl.settings.robots, "purpose": crawl.settings.purpose}


def _fits(rid: bytes, crawl: TaskCrawl, page: StoredPage) -> bool:
    """Whether a page may be used in place of a fetch. The page of the same request is that of a run
    before a retry."""
    settings, manners = crawl.settings, page.headers.get("manners") or {}
    return (
        page.rid != rid
        and page.size <= settings.max_body
        and page.status not in settings.retry_statuses
        and not page.sets_cookies
        and crawl.allows(hostname_of(page.url))
        and (not settings.robots or manners.get("robots", False))
        and (settings.purpose is None or manners.get("purpose") == settings.purpose)
    )


def _signature(outcome: Outcome, crawl: TaskCrawl, request: Request) -> bytes:
    """Equal where the same code gets the same page with the same data."""
    plain = request.replace(depth=0, priority=0, dont_filter=False).encode()
    digest = hashlib.blake2b(plain, digest_size=16)
    recipe = crawl.spec.recipe.number if crawl.spec.recipe is not None else 0
    own = msgspec.json.encode(crawl.spec.settings, order="deterministic")
    digest.update(f"\0{outcome.version}\0{recipe}\0{crawl.owner}\0".encode() + own)
    return digest.digest()
