"""Stages: the list of the stages of a crawl, as its spider and its node need them, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.limits import HOST_BYTE_LIMIT
from crawlframe.base.urls import host_of
from crawlframe.errors import FetchError
from crawlframe.fetch.body.pictures import pictures_of
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.client.records import Signal
from crawlframe.node.worker.crawl.callbacks import Callbacks, MiddlewareWatch
from crawlframe.node.worker.crawl.stage import (
    ClaimedFetch,
    CrawlFetch,
    Next,
    NoResponse,
    Stage,
    around,
)
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.fetch.fetching import NO_FETCH, Way, download
from crawlframe.node.worker.fetch.permits import HostPermits, LocalPermits
from crawlframe.node.worker.fetch.proxies import Proxying, ProxySource
from crawlframe.node.worker.fetch.rendering import Rendering, RenderSource
from crawlframe.node.worker.fetch.replay import CacheReplay, back_to_host, not_kept
from crawlframe.node.worker.fetch.usage_signals import UsageSignals
from crawlframe.node.worker.pages.near_pages import NearPages, NearSource
from crawlframe.node.worker.pages.page_reuse import PageReuse
from crawlframe.node.worker.pages.page_source import PageSource
from crawlframe.node.worker.robots.guard import RobotsGuard, TdmGuard
from crawlframe.node.worker.robots.side_trips import SideTrips
from crawlframe.node.worker.verdict.signals import FetchReports, ResponseClassifier
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.outcome import Verdict
from crawlframe.run.reasons import CANCELLED

MAX_HOSTS = 10_000  # whose addresses are remembered
UNRESOLVED = "unresolved"  # in place of an address: all such names share its limits


@dataclass(frozen=True)
class FetchSources:
    """Shared knowledge of a worker's fetches: answers, permits and pages of other workers. None:
    robots.txt is not asked for, there is no development cache, requests of the pool are not sent,
    no page of the store is used, no texts are compared, and pages are rendered only if their
    requests ask for it."""

    robots: RobotsGuard | None = None
    replay: CacheReplay | None = None
    permits: HostPermits = field(default_factory=LocalPermits)
    proxies: ProxySource | None = None
    pages: PageSource | None = None
    near: NearSource | None = None
    renders: RenderSource | None = None


class Stages:
    """The stages of one worker. ``callbacks`` marks authors' code; ``failed`` is called with its
    errors. ``user_agent``: of requests whose spider names none."""

    def __init__(
        self,
        downloader: Downloader,
        callbacks: Callbacks,
        sources: FetchSources,
        rendering: Rendering,
        reports: FetchReports,
        failed: Callable[[BaseException], None],
        user_agent: str,
    ) -> None:
        self._download: Next[CrawlFetch] = partial(download, downloader)
        self._sources = sources
        self._rendering = rendering
        self._addresses = Addresses(downloader)
        self._usage = UsageSignals(user_agent)
        self._turns = Turns(sources.permits)
        self._side_trips = SideTrips(sources.robots, self._turns.at, reports, reports.clock)
        self._authors = AuthorsLayers(callbacks)
        self._classifier = ResponseClassifier(callbacks)
        self._classifier_inline = ResponseClassifier()
        self._tdm = None if sources.robots is None else TdmGuard(sources.robots)
        self._proxying = None if sources.proxies is None else Proxying(sources.proxies)
        self._reuse = None if sources.pages is None else PageReuse(sources.pages, reports)
        self._near = None
        if sources.near is not None:
            self._near = NearPages(callbacks, sources.near, failed)

    def of(self, crawl: TaskCrawl, way: Way, follow: Stage[ClaimedFetch]) -> Next[ClaimedFetch]:
        """The stages for claims of a kind. ``follow`` is between the stages of a claim and the
        stages of each URL that is sent for it."""
        made: list[Stage[ClaimedFetch]] = [*self._of_claim(crawl, way)]
        if way not in NO_FETCH:
            made += [follow, *self._of_url(crawl, way)]
        return around(made, self._innermost(way))

    def inline(self, crawl: TaskCrawl, permit: Stage[CrawlFetch]) -> Next[CrawlFetch]:
        """The stages of fetches by the code of a spider, within its middlewares. ``permit`` waits
        for the host."""
        stages: list[Stage[CrawlFetch]] = [permit]
        if self._sources.replay is not None:
            stages.insert(0, self._sources.replay.fetch)
        robots, tdm = self._guards_of(crawl)
        if robots is not None:
            stages.append(robots.fetch)
        if tdm is not None:
            stages.append(tdm.fetch)
        return around([*stages, self._classifier_inline.fetch], self._download)

    def _of_claim(self, crawl: TaskCrawl, way: Way) -> Iterator[Stage[ClaimedFetch]]:
        own, usual = crawl.settings, way in (Way.PLAIN, Way.USUAL)
        if way in NO_FETCH:
            if self._proxying is not None and way is Way.ERRAND:
                yield self._proxying.fetch
            return
        if crawl.budget is not None:
            yield spare_bytes
        if self._near is not None and own.near_duplicates.action != "off":
            yield self._near.fetch
        if own.render == "auto" or way is not Way.PLAIN:
            yield self._rendering.fetch
        if self._proxying is not None and usual and (own.proxy or way is Way.USUAL):
            yield self._proxying.fetch
        if self._reuse is not None and own.uses_store:
            yield self._reuse.fetch if usual else self._reuse.take_over
        if way is not Way.PLAIN:
            yield take_file
        yield self._usage.fetch
        if way is Way.KEPT:
            yield back_to_host

    def _of_url(self, crawl: TaskCrawl, way: Way) -> Iterator[Stage[ClaimedFetch]]:
        own, uses_store = crawl.settings, self._reuse is not None and crawl.settings.uses_store
        if way is not Way.PLAIN or own.downloader == BROWSER or own.render == "auto":
            yield take_pictures
        if crawl.middlewares is not None:
            yield self._authors.fetch
        if self._sources.replay is not None:
            yield self._sources.replay.fetch
        if way is Way.KEPT:
            return
        if self._reuse is not None and uses_store:
            yield self._reuse.answer
        yield self._turns.fetch
        if crawl.budget is not None:
            yield count_bytes
        robots, tdm = self._guards_of(crawl)
        if robots is not None:
            yield partial(robots.fetch, divert=self._side_trips.begin)
        if tdm is not None:
            yield tdm.fetch
        if own.ip.limited:
            yield self._addresses.fetch
        yield self._classifier.fetch
        if self._reuse is not None and uses_store:
            yield self._reuse.renew

    def _guards_of(self, crawl: TaskCrawl) -> tuple[RobotsGuard | None, TdmGuard | None]:
        """The guards that read the files of a site for this crawl."""
        if not crawl.settings.robots:
            return None, None
        return self._sources.robots, None if crawl.settings.purpose is None else self._tdm

    def _innermost(self, way: Way) -> Next[ClaimedFetch]:
        match way:
            case Way.KEPT:
                return not_kept
            case Way.HOMELESS:
                return self._addresses.tell
            case Way.ERRAND:
                return self._side_trips.go_on
        return self._download


async def spare_bytes(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: a request whose host has spent its bytes is not fetched. Raises NoResponse."""
    outcome, budget = fetch.outcome, fetch.crawl.budget
    if budget is not None and budget.is_spent(outcome.host):
        outcome.end(Verdict.ERROR, CANCELLED, f"{HOST_BYTE_LIMIT} of {outcome.host}")
        outcome.refuse_link(HOST_BYTE_LIMIT)
        raise NoResponse
    return await call_next(fetch)


async def count_bytes(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage before a download, whose bytes count."""
    fetch.outcome.fetch.budget = fetch.crawl.budget
    return await call_next(fetch)


async def take_file(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: the outcome gets the saved file of a response that its callback gets."""
    response = await call_next(fetch)
    if response.file is not None:
        fetch.outcome.results.files.append(response.file)
    return response


async def take_pictures(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: the outcome gets the pictures of a page, also of one that failed."""
    outcome = fetch.outcome
    try:
        response = await call_next(fetch)
    except FetchError as error:
        outcome.results.pictures = pictures_of(error.response or error)
        raise
    outcome.results.pictures = pictures_of(response)
    return response


class Addresses:
    """The addresses of hosts, for one worker, for spiders that limit the requests to one
    address."""

    def __init__(self, downloader: Downloader) -> None:
        self._downloader = downloader
        self._reported: BoundedDict[str, str] = BoundedDict(MAX_HOSTS)  # host -> address

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage: the page's report about its host has the host's address if that is new."""
        response = await call_next(fetch)
        address = self._new_of(fetch.claimed.host, response)
        fetch.signal = fetch.signal._replace(address=address)
        return response

    async def tell(self, fetch: ClaimedFetch) -> Response:
        """Returns the request, with the address of its host, in place of a fetch. Raises
        NoResponse."""
        outcome = fetch.outcome
        url = fetch.url if outcome.side_trip is None else outcome.side_trip.url
        address = await self._downloader.address_of(url) or UNRESOLVED
        outcome.fetch.signal = Signal(address=address)
        outcome.end(Verdict.RELEASE, "address", f"{outcome.host} is at {address}")
        raise NoResponse

    def _new_of(self, host: str, response: Response) -> str:
        """The address of the host, if it differs from the last reported one."""
        address = response.address
        if self._reported.get(host, "") == address or host_of(response.url) != host:
            return ""
        self._reported[host] = address
        return address


class Turns:
    """The turns of one worker's requests at their hosts after the first, which their claim pays."""

    def __init__(self, permits: HostPermits) -> None:
        self._permits = permits

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage before a request is sent: it waits for another turn if the turn of the claim was
        used: by a fetch of a middleware, or by a request before, such as a redirect that is
        followed at once."""
        outcome = fetch.outcome
        if fetch.claimed.due is not None:  # its host or address has a delay
            fetch.send_time.turn_at = partial(self.at, fetch)
        if not outcome.fetch.slot_lent and not fetch.send_time.spent:
            return await call_next(fetch)
        outcome.fetch.slot_lent = False
        async with self.at(fetch, fetch.asked.url):
            return await call_next(fetch)

    def at(self, fetch: ClaimedFetch, url: str) -> AbstractAsyncContextManager[object]:
        """Another turn of a claim, at the host of a URL."""
        outcome = fetch.outcome
        return self._permits.beside(fetch, outcome.host, outcome.rid, outcome.route, url)


class AuthorsLayers:
    """The middlewares of one worker. ``callbacks`` marks them while they run."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage. Raises MiddlewareFailed."""
        assert fetch.crawl.middlewares is not None
        outcome = fetch.outcome

        async def download(asked: Request) -> Response:
            fetch.asked = asked
            fetch.trail.begin()
            response = await call_next(fetch)
            outcome.fetch.received = response
            return response

        watch = MiddlewareWatch(self._callbacks, fetch.rid, fetch.crawl.spec.spider)
        response = await fetch.crawl.middlewares.fetch(fetch.asked, download, watch)
        fetch.account.settle(len(response.body))  # also for a response that a middleware made
        return response
