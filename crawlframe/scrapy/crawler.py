"""PortedCrawler: Scrapy's Crawler as its components know it, with our engine behind it. It is never
started: no reactor is installed, nothing is scheduled."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from pydispatch.dispatcher import getReceivers
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred, succeed

from crawlframe.base.stats import MAX_NAME, RUNNING, Stats
from crawlframe.errors import SpiderError

log = logging.getLogger(__name__)


class PortedStats(StatsCollector):
    """``inc_value`` is added up, and of ``max_value`` the largest is kept, over all workers; they
    are committed with the page. All other counts, and counts while no request runs, are this
    worker's own. Reading returns this worker's counts, and in ``closed`` the sums."""

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self.task: Stats | None = None
        self._refused: set[str] = set()

    def inc_value(self, key: str, count: Any = 1, start: Any = 0, spider: Any = None) -> None:
        known = key in self._stats
        super().inc_value(key, count, start)
        given = count if known or not start else count + start
        if isinstance(given, int) and not isinstance(given, bool):
            self._pass(key, "inc", given)

    def max_value(self, key: str, value: Any, spider: Any = None) -> None:
        super().max_value(key, value)
        if type(value) in (int, float) and math.isfinite(value):
            self._pass(key, "max", value)

    def note(self, key: str) -> None:
        """Counts in this worker a statistic that the task has in a column of its own."""
        super().inc_value(key)

    def _pass(self, key: str, verb: str, value: Any) -> None:
        if self.task is None or key in self._refused or RUNNING.get(None) is None:
            return
        try:
            getattr(self.task, verb)(str(key)[:MAX_NAME], value)
        except SpiderError as error:  # one name too many must not fail the callback that counts it
            self._refused.add(key)
            log.warning("stats: %r is counted in this worker only: %s", key, error)


# Scrapy's own parts that are replaced by ours.
OURS: dict[str, Any] = {
    "TWISTED_REACTOR": None,
    "TELNETCONSOLE_ENABLED": False,
    "EXTENSIONS_BASE": {},
    "STATS_CLASS": PortedStats,
}
# Each would write a few lines for each task in each worker.
QUIET = ("scrapy.crawler", "scrapy.middleware", "scrapy.addons")
Download = Callable[[Request], Awaitable[Response]]


class PortedCrawler(Crawler):
    """Made for one spider class. ``open`` makes the spider, in Scrapy's order: the spider, then the
    settings' components."""

    def __init__(self, kind: type, settings: Settings) -> None:
        for name in QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)
        super().__init__(kind, settings)

    def open(self, arguments: dict[str, Any], download: Download) -> None:
        """Makes the spider with these arguments. Raises errors of the author's code."""
        for name, value in OURS.items():
            self.settings.set(name, value, priority="cmdline")
        # Scrapy checks it; a module of the project may import the reactor, which installs one.
        self.settings.set("TWISTED_REACTOR_ENABLED", is_reactor_installed(), priority="cmdline")
        self.spider = self._create_spider(**arguments)
        self.engine = Engine(self, download)  # type: ignore[assignment]
        self._apply_settings()
        self.crawling = True

    def note(self, *names: str) -> None:
        """Counts in this worker, for code that reads stats while it runs, the statistics of
        Scrapy's own parts."""
        stats = self.stats
        if isinstance(stats, PortedStats):
            for name in names:
                stats.note(name)

    def listens(self, signal: object) -> bool:
        """Whether anything is connected to a signal."""
        return bool(getReceivers(self, signal))

    def send(self, signal: object, **named: Any) -> None:
        """Sends a signal to its receivers; errors are logged."""
        if self.listens(signal):
            self.signals.send_catch_log(signal=signal, **named)

    async def send_async(self, signal: object, **named: Any) -> None:
        """As ``send``, and waits for receivers that are coroutines."""
        if self.listens(signal):
            await self.signals.send_catch_log_async(signal=signal, **named)


class EngineDownloader:
    """``crawler.engine.downloader``. Nothing is in ``slots``: the delay of a host is kept for the
    whole cluster, and no component of a spider changes it. Components expect that a host may have
    none."""

    slots: Mapping[str, Any] = MappingProxyType({})


class Engine:
    """``crawler.engine``: the part that spiders and components use. ``closing``: the reason to end
    the task when the running callback is done. ``asked``: requests that it has to yield before."""

    def __init__(self, crawler: PortedCrawler, download: Download) -> None:
        self.crawler = crawler
        self.spider = crawler.spider
        self.settings = crawler.settings
        self.signals = crawler.signals
        self.running = True
        self.paused = False
        self.closing = ""
        self.asked: list[Request] = []
        self.downloader = EngineDownloader()
        self._download = download

    async def download(self, request: Request) -> Response:
        """The response to a request, fetched inside the callback that awaits it. Raises Scrapy's
        errors for a failed download."""
        return await self._download(request)

    async def download_async(self, request: Request) -> Response:
        """As ``download``."""
        return await self._download(request)

    def crawl(self, request: Request) -> None:
        """Queues a request, as if the callback that runs had yielded it. Raises RuntimeError if
        none runs."""
        if RUNNING.get(None) is None:
            raise RuntimeError(
                f"crawler.engine.crawl({request}) works only while a callback runs; yield first "
                "requests in start"
            )
        self.asked.append(request)

    def close_spider(self, spider: Any, reason: str = "cancelled") -> Deferred[None]:
        """Ends the task when the running callback is done, with its results. The Deferred has
        fired: a callback cannot wait for it."""
        self.closing = self.closing or reason
        return succeed(None)

    async def close_spider_async(self, *, reason: str = "cancelled") -> None:
        """As ``close_spider``."""
        self.closing = self.closing or reason

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"crawler.engine.{name} does not exist in Crawlframe; it has crawl, download, "
            "close_spider and downloader.slots"
        )


REQUESTED = "downloader/request_count"
RECEIVED = (REQUESTED, "downloader/response_count", "response_received_count")
SCHEDULED = "scheduler/enqueued"
