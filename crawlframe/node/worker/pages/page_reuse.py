"""PageReuse: pages that a request need not fetch, because the store of pages has them, or need not
parse, because they were parsed before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from crawlframe.actions import keeps_page
from crawlframe.base.urls import host_of, hostname_of
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next, NoResponse, StoredCopy
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.pages.page_source import Asked, PageSource
from crawlframe.node.worker.verdict.backoff import MAX_POLL, POLL, RESERVED_MS
from crawlframe.node.worker.verdict.signals import FetchReports
from crawlframe.pages.copy import Results
from crawlframe.pages.key import is_whole, key_of
from crawlframe.pages.stored import response_of
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.response.stored_page import StoredPage
from crawlframe.run.outcome import Outcome, Verdict

SHARED = "shared"  # why it waits
# Counters of a task.
STORED, NOT_MODIFIED = "store/stored", "store/not_modified"
SAME_BYTES, TAKEN_OVER = "store/same_bytes", "store/taken_over"
# Statuses of pages that are used again, and headers that make them personal.
SHAREABLE = frozenset({200, 203, 404, 410})
PERSONAL = frozenset({"cookie", "authorization"})


class PageReuse:
    """Reuse of pages in one worker, for spiders that use the store."""

    def __init__(self, source: PageSource, reports: FetchReports) -> None:
        self._source = source
        self._reports = reports

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage: looks into the store before any fetch."""
        fetch.stored = stored = await self._find(fetch)
        if stored.waits or stored.response is not None:
            self._reports.unsent(fetch)
        if stored.waits:
            raise NoResponse
        return await self.take_over(fetch, call_next)

    async def take_over(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage: looks whether the response need be parsed."""
        response = await call_next(fetch)
        await self._take_over(fetch, response)
        return response

    async def answer(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage: a fresh page of the store is the response."""
        if fetch.stored is None or fetch.stored.response is None:
            return await call_next(fetch)
        fetch.account.settle(len(fetch.stored.response.body))
        return fetch.stored.response

    async def renew(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage inside of all that reads the response: the server is asked whether its page has
        changed."""
        asked, stored = fetch.asked, fetch.stored
        if stored is None:
            return await call_next(fetch)
        fetch.asked = stored.ask(asked)
        try:
            return stored.complete(await call_next(fetch), asked)
        finally:
            fetch.asked = asked

    async def _find(self, fetch: ClaimedFetch) -> StoredCopy:
        """The stored copy for a request. Where no page is fresh, and another request fetches it,
        the outcome has ended, to look again later."""
        outcome, crawl, request = fetch.outcome, fetch.crawl, fetch.request
        settings, reuse = crawl.settings, crawl.settings.reuse
        if not is_whole(request, settings):
            return StoredCopy()
        if request.options.save or keeps_page(request.options.actions):
            return StoredCopy()
        outcome.fetch.key = page_key(crawl, request)
        if outcome.fetch.redirects:  # it was looked for before the first of them
            outcome.fetch.reserved = reuse.max_age > 0
            return StoredCopy()
        browser = (request.downloader or settings.downloader) == BROWSER
        found = await self._source.find(
            Asked(
                outcome.fetch.key,
                page_key(crawl, request, crawl.owner),
                host_of(request.url),
                outcome.rid,
                partial(_fits, outcome.rid, crawl),
                reuse.max_age,
                round(1000 * settings.timeout) + RESERVED_MS if reuse.max_age else 0,
                reuse.conditional and not browser,
            )
        )
        outcome.fetch.reserved = found.reserved
        if found.waits:
            delay = max(POLL, min(found.waits, MAX_POLL))  # the longer it lasts, the less often
            outcome.end(Verdict.DEFER, SHARED, "another task fetches this page", delay=delay)
            return StoredCopy(waits=True)
        page, body = found.page, found.body
        if page is None or not found.fresh or body is None:
            return StoredCopy(None, page, body, conditional=reuse.conditional and not browser)
        outcome.fetch.budget = None  # nothing is fetched
        outcome.count(STORED)
        response = response_of(page, request, body)
        response.unchanged = True
        return StoredCopy(response, page, body)

    async def _take_over(self, fetch: ClaimedFetch, got: Response) -> None:
        """Counts unchanged pages, and finds pages that need not be parsed again: then
        ``earlier`` of the outcome has the callback's results."""
        outcome, crawl, request = fetch.outcome, fetch.crawl, fetch.request
        if got.file is not None:
            return
        if got.not_modified:
            outcome.fetch.status, outcome.fetch.size = 304, 0
            outcome.count(NOT_MODIFIED)
        elif got.unchanged and got.stored is None:
            outcome.count(SAME_BYTES)
        if crawl.settings.reuse.skip_unchanged and request.method == "GET":
            outcome.results.signature = _signature(outcome, crawl, request)
            outcome.results.requests = []
            page = fetch.stored.previous if fetch.stored is not None else None
            if page is not None and got.unchanged and page.signature == outcome.results.signature:
                outcome.results.earlier = await self._source.results(page)
                if outcome.results.earlier is not None:
                    outcome.count(TAKEN_OVER)


def again(earlier: Results) -> Callable[[], Iterator[Any]]:
    """Returns a replacement for a callback that need not run: yields its earlier results."""

    def run() -> Iterator[Any]:
        yield from map(msgspec.json.decode, earlier.items)
        yield from map(Request.decode, earlier.requests)

    return run


def page_key(crawl: TaskCrawl, request: Request, owner: str = "") -> bytes:
    """The key that finds the page of a request: a shared page, or a page of its owner."""
    downloader = request.downloader or crawl.settings.downloader
    return key_of(request, crawl.settings, owner, downloader)


def kept_key(crawl: TaskCrawl, request: Request, response: Response) -> bytes | None:
    """The key under which a page is kept; None if it is not to be found. It is the ``owner``'s if
    the page may differ for others: by a login, by cookies, or as its server says."""
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
        # A page that it calls a block may be none for others.
        or crawl.judges_blocks
    )
    return page_key(crawl, request, crawl.owner if personal else "")


def manners_of(crawl: TaskCrawl) -> dict[str, Any]:
    """The rules that were obeyed when a page was fetched, as they are kept with it."""
    return {"robots": crawl.settings.robots, "purpose": crawl.settings.purpose}


def _fits(rid: bytes, crawl: TaskCrawl, page: StoredPage) -> bool:
    """Whether a page may be used in place of a fetch. A page of the same request is from a run
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
