"""A spider that logs and prints."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from crawlframe import Request, Response, Secret, Spider

log = logging.getLogger(__name__)


class TalkingSpider(Spider):
    """Reports its steps, in all possible ways."""

    name = "talking"
    settings = {"delay": 0}
    password: Secret = Secret("none given")

    def start(self, url: str) -> Any:
        self.log.info("starting with %s", self.password.reveal())
        yield Request(url)

    def parse(self, response: Response) -> Any:
        print("printed", len(response.links()), "links")
        log.warning("by the module")
        yield {"url": response.url}
        yield from response.follow_all(response.links(), self.slow)

    async def slow(self, response: Response) -> Any:
        await asyncio.to_thread(print, "in a thread")
        try:
            raise ValueError("no price")
        except ValueError:
            self.log.exception("cannot be read")
