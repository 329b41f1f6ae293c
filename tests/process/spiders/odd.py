"""A spider whose pages do the worst that real ones do."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from crawlframe import FetchError, Request, Response, Spider

KEPT: list[bytes] = []


class OddSpider(Spider):
    """Follows every link of a page; the path names the page's behaviour."""

    name = "odd"
    settings = {"concurrency": 32, "delay": 0, "retries": 1}

    def start(self, url: str, many: int = 0) -> Iterator[Request]:
        yield Request(url)
        for number in range(many):
            yield Request(f"{url}page/{number}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        if response.url.endswith("/nap"):
            time.sleep(0.2)  # so that the callback runs in threads from now on
        for link in response.links():
            word = link.rpartition("/")[2].partition("?")[0]
            callback = word if hasattr(self, word) else "parse"
            yield response.follow(link, callback, errback=self.failed)

    def killer(self, response: Response) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def crasher(self, response: Response) -> None:
        ctypes.string_at(0)

    def sleeper(self, response: Response) -> dict[str, Any]:
        time.sleep(2.0)
        return {"url": response.url}

    def endless(self, response: Response) -> None:
        while True:
            time.sleep(0.1)

    def leaks(self, response: Response) -> None:
        KEPT.append(b"leak" * (32 << 20))

    def failed(self, error: FetchError) -> Iterator[dict[str, Any]]:
        yield {"failed": error.request.url, "reason": error.reason}
