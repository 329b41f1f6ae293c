"""Replay: the development cache in a worker. Pages that it has are neither fetched nor asked for in
robots.txt, and do not wait for the delay of their host."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import BadRequest, CacheUnusable, MissingCode
from crawlframe.fetch.journey.trail import Redirected, Trail
from crawlframe.frontier.client.records import ANSWERS
from crawlframe.node.worker.crawl.stage import ClaimedFetch, F, Next, NoResponse
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.proxies.place import place_of
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Admission, Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.response import Response
from crawlframe.run.outcome import Verdict

if TYPE_CHECKING:
    from crawlframe.fetch.page_cache import PageCache

log = logging.getLogger(__name__)

T = TypeVar("T")

# The beginning of the host under which a request waits whose page is kept. Each has one of its own,
# so that nothing holds it up. The ledger has its real host.
KEPT_HOST = "/kept/"

PAUSE = 60.0  # seconds without another try after a cache could not be used


class NotKept(BaseException):
    """The page of a request that did not wait for its host is not in the cache any more, or this
    node does not use it. Not an Exception, so that a middleware that expects errors lets it
    pass."""


async def not_kept(fetch: ClaimedFetch) -> Response:
    """Ends a request that did not wait for its host, in place of its download. Raises NotKept."""
    raise NotKept


async def back_to_host(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: a request whose page is not kept waits for its host, as it would have without the
    cache. Raises NoResponse."""
    outcome = fetch.outcome
    try:
        return await call_next(fetch)
    except NotKept:
        route = fetch.crawl.route(fetch.request)
        outcome.target = place_of(host_of(fetch.url), route)
        outcome.end(Verdict.REDIRECT)
        raise NoResponse from None


class CacheReplay:
    """``opened`` opens the cache, at first use. While it cannot be used, nothing is found, and
    nothing is kept. ``places``: whether requests may wait apart from their hosts; their partition
    would change if there were several. ``clock`` returns seconds."""

    @classmethod
    def of(cls, settings: Settings) -> CacheReplay | None:
        """Returns None if the cache is not used."""
        if not settings.cache:
            return None
        # Imported here: few nodes need it, and SQLite with it.
        from crawlframe.fetch.page_cache import PageCache

        return cls(lambda: PageCache.of(settings), places=settings.partitions == 1)

    def __init__(
        self,
        opened: Callable[[], PageCache],
        places: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opened = opened
        self._places = places
        self._clock = clock
        self._cache: PageCache | None = None
        self._next = 0.0  # when it may be tried again

    async def fetch(self, fetch: F, call_next: Next[F]) -> Response:
        """A stage: a page that is kept is the response; others are kept."""
        crawl, trail = fetch.crawl, fetch.trail
        try:
            kept = self.find(fetch.asked, crawl, trail)
            if kept is not None:
                return kept
            try:
                response = await call_next(fetch)
            except Redirected:
                self.keep_redirect(fetch.asked, trail)
                raise
        except Redirected:
            fetch.stays = self.goes_on(trail.next_request())
            raise
        if fetch.signal.kind in ANSWERS:  # neither refused nor blocked
            self.keep(fetch.asked, response, crawl)
        return response

    def find(self, request: Request, crawl: TaskCrawl, trail: Trail) -> Response | None:
        """Returns the page that is kept for the request. Raises Redirected after it has added a
        redirect to the trail, as a fetch does."""
        if (request.downloader or crawl.settings.downloader) == BROWSER:
            return None  # results of its actions are not kept
        kept = self._use(lambda cache: cache.find(request), None)
        if kept is None:
            return None
        if kept.hop is not None:
            trail.hops.append(kept.hop)
            raise Redirected
        response = kept.response(request)
        response.redirects = trail.passed
        if crawl.settings.cookies or request.options.session is not None:
            cookies = response.headers.getall("Set-Cookie", [])
            crawl.cookies.absorb(request.url, cookies, request.options.session or "")
        return response

    def goes_on(self, request: Request) -> bool:
        """Whether the target of a redirect is kept, too."""
        return self._use(lambda cache: cache.has(request), False)

    def keep(self, request: Request, response: Response, crawl: TaskCrawl) -> None:
        """Keeps a response unless it would be tried again."""
        if isinstance(response, RenderedResponse):
            return
        if response.status not in crawl.settings.retry_statuses:
            self._use(lambda cache: cache.keep(request, response), None)

    def keep_redirect(self, request: Request, trail: Trail) -> None:
        self._use(lambda cache: cache.keep_redirect(request, trail.hops[-1]), None)

    def place(self, admissions: list[Admission]) -> list[Admission]:
        """The same requests; those whose pages are kept do not wait for their hosts, which the
        ledger has."""
        if not self._places:
            return admissions
        return [
            one._replace(host=KEPT_HOST + one.rid.hex()) if self._is_kept(one) else one
            for one in admissions
        ]

    def _is_kept(self, admission: Admission) -> bool:
        try:
            return self.goes_on(Request.decode(admission.record))
        except (BadRequest, MissingCode):
            return False

    def _use(self, job: Callable[[PageCache], T], otherwise: T) -> T:
        """The result of ``job``; ``otherwise`` if the cache cannot be used."""
        if self._clock() < self._next:
            return otherwise
        try:
            if self._cache is None:
                self._cache = self._opened()
            return job(self._cache)
        except CacheUnusable as error:
            self._next, self._cache = self._clock() + PAUSE, None
            log.warning("pages are fetched and not kept: %s", error)
            return otherwise
