"""Contenders: the same job for Scrapy, tuned and with its own set of URLs, and for a bare loop.

``python -m benchmarks.pages.contenders scrapy|bare DSN SEEDS CERTIFICATE FOLLOW``"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import can_ada
import orjson
import psycopg2

from benchmarks.pages.names import address_of

BATCH = 256  # rows of an insert
IN_FLIGHT = 64
PER_HOST = 8
INSERT = """INSERT INTO row SELECT * FROM jsonb_to_recordset(%s::jsonb)
AS row(url text, title text, links int)"""


class Rows:
    def __init__(self, dsn: str) -> None:
        self._connection = psycopg2.connect(dsn)
        self._rows: list[dict[str, Any]] = []

    def add(self, url: str, title: str | None, links: int) -> None:
        self._rows.append({"url": url, "title": title, "links": links})
        if len(self._rows) >= BATCH:
            self.store()

    def store(self) -> None:
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(INSERT, (orjson.dumps(self._rows).decode().replace("\\u0000", ""),))
        self._rows.clear()


def joined(url: str, hrefs: list[str]) -> list[str]:
    base = can_ada.parse(url)
    found: dict[str, None] = {}
    for href in hrefs:
        try:
            target = (base + href).href.partition("#")[0]
        except ValueError:
            continue
        if target.startswith("http"):
            found[target] = None
    return [*found]


async def bare(rows: Rows, seeds: list[str], certificate: str, follow: bool) -> None:
    import pycurl
    from selectolax.lexbor import LexborHTMLParser

    multi: Any = pycurl.AsyncCurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, 2_000)
    # The hosts in turn, so that each keeps its connection.
    queue: asyncio.PriorityQueue[tuple[int, str]] = asyncio.PriorityQueue()
    seen, known, turns = set(seeds), set[str](), Counter[str]()

    def enqueue(url: str) -> None:
        turns[host := url.split("/p/")[0]] += 1
        queue.put_nowait((turns[host], url))

    for url in seeds:
        enqueue(url)

    async def work() -> None:
        curl: Any = pycurl.Curl()
        chunks: list[bytes] = []
        for option, value in (
            (pycurl.NOSIGNAL, 1), (pycurl.PROXY, ""), (pycurl.BUFFERSIZE, 1 << 17),
            (pycurl.ACCEPT_ENCODING, "gzip, br"), (pycurl.CAINFO, certificate),
            (pycurl.WRITEFUNCTION, chunks.append), (pycurl.FOLLOWLOCATION, 1),
        ):  # fmt: skip
            curl.setopt(option, value)
        while True:
            _, url = await queue.get()
            if (host := urlsplit(url).netloc) not in known:
                known.add(host)
                curl.setopt(pycurl.RESOLVE, [f"{host}:{address_of(host.split(':')[0])}"])
            curl.setopt(pycurl.URL, url)
            await multi.add_handle(curl)
            if curl.getinfo(pycurl.RESPONSE_CODE) != 200:
                chunks.clear()
                queue.task_done()
                continue
            page: Any = LexborHTMLParser(b"".join(chunks))
            chunks.clear()
            title = page.css_first("title")
            links = joined(url, [one.attributes["href"] or "" for one in page.css("a[href]")])
            rows.add(url, title and title.text(), len(links))
            own = url.split("/p/")[0] + "/p/"
            for link in links if follow else ():
                if link not in seen and link.startswith(own):
                    seen.add(link)
                    enqueue(link)
            queue.task_done()

    tasks = [asyncio.create_task(work()) for _ in range(IN_FLIGHT)]
    done = asyncio.create_task(queue.join())
    await asyncio.wait([done, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    rows.store()


def scrapy(rows: Rows, seeds: list[str], follow: bool) -> None:
    from lxml import etree
    from scrapy import Request, Spider
    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.resolver import CachingThreadedResolver
    from twisted.internet import defer

    from benchmarks.standard.contenders.scrapy.spiders import (
        NOT_DOWNLOADING,
        NOT_SPIDERING,
        Silent,
    )

    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True)

    class Pages(Spider):
        name = "pages"
        seen = set(seeds)

        async def start(self) -> Any:
            for url in seeds:
                yield Request(url, dont_filter=True)

        def parse(self, response: Any) -> Any:
            if response.status != 200:
                return
            page = etree.fromstring(response.body, parser)
            links = joined(response.url, page.xpath("//a/@href"))
            rows.add(response.url, page.findtext(".//title"), len(links))
            own = response.url.split("/p/")[0] + "/p/"
            for link in links if follow else ():
                if link not in self.seen and link.startswith(own):
                    self.seen.add(link)
                    yield Request(link, dont_filter=True)

        def closed(self, reason: str) -> None:
            rows.store()

    class Resolver(CachingThreadedResolver):
        def getHostByName(self, name: str, timeout: Any = ()) -> Any:  # noqa: N802
            return defer.succeed(address_of(name))

    robots = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    process = AsyncCrawlerProcess(
        {
            "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
            "CONCURRENT_ITEMS": 2,
            "CONCURRENT_REQUESTS": IN_FLIGHT,
            "CONCURRENT_REQUESTS_PER_DOMAIN": PER_HOST,
            "DOWNLOADER_MIDDLEWARES": dict.fromkeys({*NOT_DOWNLOADING} - {robots}),
            "DNS_RESOLVER": Resolver,
            "DOWNLOAD_DELAY": 0,
            "EXTENSIONS_BASE": {},
            "LOG_FORMATTER": Silent,
            "LOG_LEVEL": "ERROR",
            "ROBOTSTXT_OBEY": True,
            "SPIDER_MIDDLEWARES": dict.fromkeys(NOT_SPIDERING),
            "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        }
    )
    process.crawl(Pages)
    process.start()


if __name__ == "__main__":
    name, dsn, seeds_file, certificate_file, follows = sys.argv[1:]
    urls = Path(seeds_file).read_text().split()
    if name == "bare":
        import uvloop

        uvloop.run(bare(Rows(dsn), urls, certificate_file, follows == "yes"))
    else:
        scrapy(Rows(dsn), urls, follows == "yes")
