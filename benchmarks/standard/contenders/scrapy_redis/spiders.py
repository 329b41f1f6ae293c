"""Spiders: Scrapy's, with start, queue and dupefilter in Redis."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy_redis.spiders import RedisMixin

from benchmarks.standard.contenders.peer.words import Words
from benchmarks.standard.contenders.scrapy import spiders


class Waiting(RedisMixin):
    """Ends when it was idle twice in a row, which are five seconds apart, and fetched nothing in
    between. (The mixin's MAX_IDLE_TIME_BEFORE_CLOSE counts from the start of the program.)"""

    fetched = 0
    fetched_when_idle = -1

    @classmethod
    def from_crawler(cls, crawler: Crawler, *words: Any, **named: Any) -> Any:
        spider = super().from_crawler(crawler, *words, **named)
        spider.setup_redis(crawler)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        for request in self.next_requests():
            self.first = time.monotonic()
            yield request

    def make_request_from_data(self, data: bytes) -> Request:
        return Request(data.decode())  # the mixin's is unknown to the dupefilter

    def spider_idle(self) -> None:
        if self.fetched_when_idle != self.fetched:
            self.fetched_when_idle = self.fetched
            raise DontCloseSpider

    def parse(self, response: Response) -> Iterator[Any]:
        self.fetched += 1
        found: Iterator[Any] = super().parse(response)
        return found


class Shipped(Waiting, spiders.Shipped):
    pass


class OwnSet(Waiting, spiders.OwnSet):
    alone = False  # each process has a set of its own


def settings(words: Words) -> dict[str, Any]:
    """The three queue classes cost the same CPU within the noise; this one asks Redis for the
    least, and goes breadth first."""
    return spiders.settings(words) | {
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": words.redis,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_PERSIST": True,  # else the first process to end empties the queue
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
    }
