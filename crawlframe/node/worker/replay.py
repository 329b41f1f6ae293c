"""Replay: the development cache in a worker. Pages that it has are neither fetched nor asked for in
robots.txt, and do not wait for the delay of their host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlframe.conf import Settings
from crawlframe.errors import BadRequest, FetchError, MissingCode
from crawlframe.fetch.redirects import Redirected, Trail
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.request import Admission, Request
from crawlframe.response import Response

if TYPE_CHECKING:
    from crawlframe.fetch.page_cache import PageCache

# The beginning of the host under which a request waits whose page is kept. Each has one of its own,
# so that nothing holds it up. The ledger has its real host.
KEPT_HOST = "/kept/"


class NotKept(FetchError):
    """The page of a request that did not wait for its host is not in the cache any more."""

    reason = "cache"
    retryable = False

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url}: its page is no longer in the development cache, or this node does not use it; "
            "retry the task to fetch it"
        )


class Replay:
    """``places``: whether requests may wait apart from their hosts; their partition would change if
    there were several."""

    @classmethod
    def of(cls, settings: Settings) -> Replay | None:
        """None: the cache is not used."""
        if not settings.cache:
            return None
        # Imported here: few nodes need it, and SQLite with it.
        from crawlframe.fetch.page_cache import PageCache

        return cls(PageCache.of(settings), places=settings.partitions == 1)

    def __init__(self, cache: PageCache, places: bool) -> None:
        self._cache = cache
        self._places = places

    def find(self, request: Request, crawl: TaskCrawl, trail: Trail) -> Response | None:
        """Returns the page that is kept for the request. Raises Redirected after it has added a
        redirect to the trail, as a fetch does."""
        kept = self._cache.find(request)
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
        return self._cache.has(request)

    def keep(self, request: Request, response: Response, crawl: TaskCrawl) -> None:
        """Keeps what is worth keeping: not what would be tried again."""
        if response.status not in crawl.settings.retry_statuses:
            self._cache.keep(request, response)

    def keep_redirect(self, request: Request, trail: Trail) -> None:
        self._cache.keep_redirect(request, trail.hops[-1])

    def place(self, admissions: list[Admission]) -> list[Admission]:
        """The same requests; those whose pages are kept do not wait for their hosts."""
        if not self._places:
            return admissions
        return [
            one._replace(host=KEPT_HOST + one.rid.hex()) if self._is_kept(one) else one
            for one in admissions
        ]

    def _is_kept(self, admission: Admission) -> bool:
        try:
            return self._cache.has(Request.decode(admission.record))
        except (BadRequest, MissingCode):
            return False
