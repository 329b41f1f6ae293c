"""PortedCrawler: Scrapy's Crawler as its components know it, with our engine behind it. It is never
started: no reactor is installed, nothing is scheduled."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from pydispatch.dispatcher import getReceivers
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred, succeed

from crawlframe.base.stats import RUNNING
from crawlframe.scrapy.stats import PortedStats

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
        """Makes the spider with these arguments. Raises what the author's code raises."""
        for name, value in OURS.items():
            self.settings.set(name, value, priority="cmdline")
        # Scrapy checks it; a module of the project may import the reactor, which installs one.
        self.settings.set("TWISTED_REACTOR_ENABLED", is_reactor_installed(), priority="cmdline")
        self.spider = self._create_spider(**arguments)
        self.engine = Engine(self, download)  # type: ignore[assignment]
        self._apply_settings()
        self.crawling = True

    def note(self, *names: str) -> None:
        """Counts in this worker, for code that reads stats while it runs, what Scrapy's own parts
        would count."""
        stats = self.stats
        if isinstance(stats, PortedStats):
            for name in names:
                stats.note(name)

    def listens(self, signal: object) -> bool:
        """Whether anything is connected to a signal."""
        return bool(getReceivers(self, signal))

    def send(self, signal: object, **named: Any) -> None:
        """Sends a signal to what is connected; errors are logged."""
        if self.listens(signal):
            self.signals.send_catch_log(signal=signal, **named)

    async def send_async(self, signal: object, **named: Any) -> None:
        """As ``send``, and waits for those that are coroutines."""
        if self.listens(signal):
            await self.signals.send_catch_log_async(signal=signal, **named)


class EngineDownloader:
    """``crawler.engine.downloader``. Nothing is in ``slots``: the delay of a host is kept for the
    whole cluster, and no component of a spider changes it. Components expect that a host may have
    none."""

    slots: Mapping[str, Any] = MappingProxyType({})


class Engine:
    """``crawler.engine``: what spiders and components use of it. ``closing``: the reason to end the
    task when the callback that runs is done. ``asked``: requests that it has to yield before."""

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
        """The response to a request, fetched inside of the callback that awaits it. Raises what
        Scrapy raises for a failed download."""
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
        """Ends the task when the callback that runs is done, with what it yields. The Deferred
        has fired: nothing can be waited for inside of a callback."""
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
