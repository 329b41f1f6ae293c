"""Callbacks that use the browser's page of their request."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from crawlframe import Request, Response, Spider
from crawlframe.actions import KeepPage, Screenshot


class Live(Spider):
    """Holds each page while the file ``hold`` is there. Next to it, each callback leaves a file
    named for its process."""

    name = "live"
    hold: str
    settings = {"browser": {"settle": 0, "failure_pictures": True}, "timeout": 20, "retries": 20}

    def start(self, url: str, pages: int) -> Iterator[Request]:
        for n in range(pages):
            yield Request(f"{url}page/{n}", actions=[Screenshot(), KeepPage()])
        yield Request(f"{url}page/fails", self.fails, downloader="browser")

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        """Yields the text that a script has written into the page."""
        page = await response.page()
        await page.evaluate("document.title = 'written'")
        number = response.url.rpartition("/")[2]
        Path(f"{self.hold}.{number}.{os.getpid()}").touch()
        while Path(self.hold).exists():
            await page.wait_for_timeout(100)
        yield {"url": response.url, "title": await page.title()}

    def fails(self, response: Response) -> None:
        raise ValueError("nothing here")
