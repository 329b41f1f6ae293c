"""A spider that follows all links of a simulated site."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from crawlframe import Request, Response, Spider
from crawlframe.errors import CrawlframeError
from tests.simulation.site import ASIDE, url_of


class WalkSpider(Spider):
    name = "walk"
    settings: ClassVar[dict[str, Any]] = {
        "robots": False, "delay": 0.05, "concurrency": 2, "retries": 1, "timeout": 10,
        "cookies": False,
    }  # fmt: skip

    def start(self, size: int, hosts: int, seed: int) -> Iterator[Request]:
        yield Request(url_of(0, size, hosts, seed))

    async def parse(self, response: Response) -> AsyncIterator[Request | dict[str, Any]]:
        page = json.loads(response.body)
        if page["kind"] == "breaks":
            raise ValueError("this page breaks its callback")
        if page["items"] == 2 and self._inline is not None:
            with suppress(CrawlframeError):
                await self._inline.fetch(Request(response.url + ASIDE))
        for number in range(page["items"]):
            yield {"url": response.url, "number": number}
        for link in page["links"]:
            yield Request(link)
