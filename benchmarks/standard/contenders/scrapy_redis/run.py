"""scrapy-redis on the standard job, in one process or in several that share the queue."""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from redis import Redis

from benchmarks.standard.contenders.peer.words import Words, heard, tell

STARTS, REQUESTS = "standard:start_urls", "standard:requests"  # keys of the spider's name
FIRST_LINKS_TIMEOUT = 30.0  # seconds until another process has found the first links
NOTES = """
{in_flight} in flight per process, FifoQueue, hiredis, the rest as Scrapy's own entry; rows by
process: {stored}; ends when idle, and {tail:.0f} s of waiting for more at the end are not counted
"""


class Part(NamedTuple):
    """The part of one process; times by time.monotonic(), which all processes share."""

    stored: int
    first: float  # request
    last: float  # row


def crawl(words: Words, number: int) -> Part:
    # Each process has its own event loop, so the parent imports nothing of Scrapy.
    from scrapy.crawler import AsyncCrawlerProcess

    from benchmarks.standard.contenders.peer.garbage import RARELY, collect
    from benchmarks.standard.contenders.scrapy_redis.spiders import OwnSet, Shipped, settings

    process = AsyncCrawlerProcess(settings(words))
    crawler = process.create_crawler(OwnSet if words.own_set else Shipped)
    process.crawl(crawler, words.start)
    collect(RARELY)
    if number:
        _wait_for_links(words.redis)
    process.start()
    spider: Any = crawler.spider
    return Part(spider.writer.stored, spider.first, spider.writer.last)


def _wait_for_links(redis: str) -> None:
    """A process that finds the queue empty looks again five seconds later. One that joins a long
    crawl finds it full, so this one joins when it is."""
    end = time.monotonic() + FIRST_LINKS_TIMEOUT
    with Redis.from_url(redis) as client:
        while not client.exists(REQUESTS):
            if time.monotonic() > end:
                raise RuntimeError("the first process found no links")
            time.sleep(0.01)


def main() -> None:
    words = heard(scales=True)
    with Redis.from_url(words.redis) as client:
        client.lpush(STARTS, words.start)
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(words.processes, mp_context=fork) as pool:
        parts = list(pool.map(crawl, [words] * words.processes, range(words.processes)))
    last = max(part.last for part in parts)
    seconds = last - min(part.first for part in parts if part.first)
    stored = [part.stored for part in parts]
    notes = NOTES.format(
        in_flight=words.in_flight,
        stored=" + ".join(map(str, stored)),
        tail=time.monotonic() - last,
    )
    tell(sum(stored), seconds, notes)


if __name__ == "__main__":
    main()
