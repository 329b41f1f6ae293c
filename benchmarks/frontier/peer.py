"""A program of its own, run by a Python that has scrapy-redis: what its queue and its dupefilter
take of Redis and of the processor for the URLs that the frontier had.

Arguments: Redis URL, PriorityQueue or FifoQueue, how many URLs are queued, how many requests are
taken after that, links a page. URLs come line by line on standard input, those of new links last.
Answers a line of JSON: bytes of Redis with the URLs queued, microseconds of CPU per request."""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from typing import Any

from redis import Redis
from scrapy import Request, Spider
from scrapy_redis import queue
from scrapy_redis.dupefilter import RFPDupeFilter


class Shop(Spider):
    name = "shop"

    def parse_article(self, response: Any) -> None: ...


def main(url: str, kind: str, queued: int, taken: int, links: int) -> None:
    server, spider = Redis.from_url(url), Shop()
    requests = [
        Request(line.strip(), spider.parse_article, meta={"depth": 3}) for line in sys.stdin
    ]
    known, new = requests[:queued], iter(requests[queued:])
    base = server.info("memory")["used_memory"]
    seen = RFPDupeFilter(server, "shop:dupefilter")
    waiting = getattr(queue, kind)(server, spider, "shop:requests")

    def enqueue(request: Request) -> None:
        if not seen.request_seen(request):
            waiting.push(request)

    for request in known:
        enqueue(request)
    size = server.info("memory")["used_memory"] - base

    dice = random.Random(0)
    old = (dice.choices(known, k=links - 1) for _ in range(taken))
    pages = [[*links_, next(new)] for links_ in itertools.islice(old, taken)]
    for page in pages:  # a page's links are requests of its own
        page[:] = [request.copy() for request in page]
    server_cpu, cpu = redis_cpu(server), time.process_time()
    for page in pages:
        waiting.pop()
        for link in page:
            enqueue(link)
    cpu = time.process_time() - cpu
    server_cpu = redis_cpu(server) - server_cpu
    if len(waiting) != queued:
        sys.exit(f"{len(waiting)} requests are queued, not {queued}")
    print(
        json.dumps({"bytes": size, "client": cpu / taken * 1e6, "redis": server_cpu / taken * 1e6})
    )


def redis_cpu(server: Any) -> float:
    info = server.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
