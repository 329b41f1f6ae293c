"""Pages of a Web."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.growth.web import Web
from crawlframe import Request, Response, Spider

FAR = 3  # links to pages anywhere, which the worker rarely remembers


class Grown(Spider):
    """An item and 21 links of each page, of which one is new: the queue keeps its length."""

    name = "grown"
    settings = {"concurrency": 256, "delay": 0, "robots": False}
    port: int
    hosts: int
    tasks: int
    queued: int

    def start(self) -> Iterator[Request]:
        yield from ()  # the requests are there

    def parse(self, response: Response) -> Iterator[Any]:
        page: Any = response.tree
        yield {"url": response.url, "h1": page.css_first("h1").text()}
        yield from response.follow_all(response.links())
        web = Web(self.port, self.hosts, self.tasks, self.queued)
        number = int(response.url.rpartition("=")[2])
        for _ in range(FAR):
            far = number + web.tasks * random.randrange(web.queued // web.tasks)
            yield response.follow(web.url(far % web.queued))
        yield response.follow(web.url(number + 10 * web.queued))
