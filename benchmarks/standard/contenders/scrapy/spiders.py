"""Spiders: the standard job for Scrapy and scrapy-redis, their pipeline and their settings."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import can_ada
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.logformatter import LogFormatter

from benchmarks.standard.contenders.peer.pages import read, select
from benchmarks.standard.contenders.peer.rows import Row, RowWriter
from benchmarks.standard.contenders.peer.words import Words

NOT_DOWNLOADING = (
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware",
    "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware",
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware",
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware",
    "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware",
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware",
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware",
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware",
    "scrapy.downloadermiddlewares.stats.DownloaderStats",
)
NOT_SPIDERING = (
    "scrapy.spidermiddlewares.depth.DepthMiddleware",
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware",
    "scrapy.spidermiddlewares.referer.RefererMiddleware",
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware",
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware",
)


class Shipped(Spider):
    """Every link becomes a request, and Scrapy's dupefilter finds the known ones."""

    name = "standard"
    first = 0.0  # time.monotonic() of the first request
    writer: RowWriter

    def __init__(self, start: str) -> None:
        super().__init__()
        self.first_url = start

    async def start(self) -> AsyncIterator[Any]:
        self.first = time.monotonic()
        yield Request(self.first_url)

    def parse(self, response: Response) -> Iterator[Any]:
        row, hrefs = read(response.url, response.body)
        yield row
        base = can_ada.parse(response.url)
        for href in hrefs:
            yield Request((base + href).href)


class Tutorial(Shipped):
    """A spider as in Scrapy's tutorial: ``response.css`` and ``response.follow_all``."""

    def parse(self, response: Response) -> Iterator[Any]:
        row, hrefs = select(response.url, response)
        yield row
        yield from response.follow_all(hrefs)


class OwnSet(Shipped):
    """A spider that makes requests of new links only."""

    alone = True  # no other process has links of its own, so that the dupefilter has nothing to do

    def __init__(self, start: str) -> None:
        super().__init__(start)
        self.seen = {start}

    def parse(self, response: Response) -> Iterator[Any]:
        row, hrefs = read(response.url, response.body)
        yield row
        base, seen = can_ada.parse(response.url), self.seen
        for href in hrefs:
            url = (base + href).href
            if url not in seen:
                seen.add(url)
                yield Request(url, dont_filter=self.alone)


class Storing:
    """The item pipeline. Its spider has the writer of the rows."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.writer = RowWriter(crawler.settings["DATABASE"])

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def open_spider(self) -> None:
        spider: Any = self.crawler.spider
        spider.writer = self.writer

    def process_item(self, item: Row) -> Row:
        self.writer.add(item)
        return item

    def close_spider(self) -> None:
        self.writer.close()


class Silent(LogFormatter):
    """Makes no log record of each page and each item."""

    def crawled(self, *_: Any, **__: Any) -> Any:
        return None

    def scraped(self, *_: Any, **__: Any) -> Any:
        return None


def settings(words: Words) -> dict[str, Any]:
    """Settings that keep retries, redirects, timeouts, decompression and the check of the status,
    and switch off the rest. Each spider middleware costs a step per link."""
    return {
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
        "CONCURRENT_ITEMS": 2,  # the number of tasks per page; 100 by default
        "CONCURRENT_REQUESTS": words.in_flight,
        "CONCURRENT_REQUESTS_PER_DOMAIN": words.in_flight,
        "DATABASE": words.database,
        "DOWNLOADER_MIDDLEWARES": dict.fromkeys(NOT_DOWNLOADING),
        "EXTENSIONS_BASE": {},
        "ITEM_PIPELINES": {Storing: 1},
        "LOG_FORMATTER": Silent,
        "LOG_LEVEL": "ERROR",
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",  # there is one host
        "SPIDER_MIDDLEWARES": dict.fromkeys(NOT_SPIDERING),
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        "WARN_ON_GENERATOR_RETURN_VALUE": False,
    }
