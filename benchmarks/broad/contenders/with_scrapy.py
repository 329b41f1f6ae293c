"""A broad crawl by Scrapy, or by scrapy-redis with --redis, with the settings that Scrapy's
documentation recommends (topics/broad-crawls). It runs until it is ended."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

KEY = "broad:start_urls"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=Path, required=True)
    parser.add_argument("--items", type=Path, required=True)
    parser.add_argument("--delay", type=float, required=True)
    parser.add_argument("--per-host", type=int, required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--redis", default="")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def settings(options: argparse.Namespace, number: int, seeds: int) -> dict[str, Any]:
    """Those of the documentation, and two of the standard job that save processor time. Redirects
    are followed, because pages are behind them."""
    items = options.items.with_suffix(f".{number}.jsonl")
    found: dict[str, Any] = {
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
        "CONCURRENT_ITEMS": 2,  # the number of tasks per page; 100 by default
        "CONCURRENT_REQUESTS": options.in_flight,
        "CONCURRENT_REQUESTS_PER_DOMAIN": options.per_host,
        "COOKIES_ENABLED": False,
        "DEPTH_PRIORITY": 1,
        "DOWNLOAD_DELAY": options.delay,
        "DOWNLOAD_TIMEOUT": 15,
        "FEEDS": {str(items): {"format": "jsonlines"}},
        "LOG_LEVEL": "WARNING",
        "RANDOMIZE_DOWNLOAD_DELAY": False,  # else every second interval is shorter than agreed
        "REACTOR_THREADPOOL_MAXSIZE": 20,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": True,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    }
    if options.redis:
        found |= {
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "REDIS_START_URLS_BATCH_SIZE": seeds,  # it takes the next batch only when it is idle
            "REDIS_URL": options.redis,
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "SCHEDULER_PERSIST": True,  # else the first process to end empties the queue
            "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
        }
    return found


def crawl(options: argparse.Namespace, number: int) -> None:
    # Each process has its own event loop, so the parent imports nothing of Scrapy.
    from scrapy import Request, Spider
    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.http import Response

    seeds = options.seeds.read_text().split()

    class Broad(Spider):
        name = "broad"

        async def start(self) -> AsyncIterator[Any]:
            for url in seeds:
                yield Request(url)

        def parse(self, response: Response) -> Iterator[Any]:
            if "html" not in (response.headers.get("Content-Type") or b"").decode():
                return
            links = [response.urljoin(link) for link in response.css("a::attr(href)").getall()]
            yield {
                "url": response.url,
                "title": response.css("title::text").get(),
                "language": response.css("html::attr(lang)").get(),
                "links": links,
            }
            for link in links:
                yield Request(link)

    spider: Any = Broad
    if options.redis:
        from scrapy_redis.spiders import RedisMixin

        class Shared(RedisMixin, Broad):
            redis_key = KEY

            @classmethod
            def from_crawler(cls, crawler: Any, *words: Any, **named: Any) -> Any:
                made = super().from_crawler(crawler, *words, **named)
                made.setup_redis(crawler)
                return made

            async def start(self) -> AsyncIterator[Any]:
                for request in self.next_requests():
                    yield request

            def make_request_from_data(self, data: bytes) -> Request:
                return Request(data.decode())  # the mixin's is unknown to the dupefilter

        spider = Shared
    process = AsyncCrawlerProcess(settings(options, number, len(seeds)))
    process.crawl(spider)
    process.start(install_signal_handlers=False)


def main() -> None:
    options = parsed()
    if options.redis:
        from redis import Redis

        with Redis.from_url(options.redis) as client:
            client.rpush(KEY, *options.seeds.read_text().split())
    if options.processes == 1:
        crawl(options, 0)
        return
    fork = multiprocessing.get_context("fork")
    some = [
        fork.Process(target=crawl, args=(options, number)) for number in range(options.processes)
    ]
    for one in some:
        one.start()

    def end(*_: Any) -> None:
        for one in some:
            one.kill()
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    for one in some:
        one.join()


if __name__ == "__main__":
    main()
