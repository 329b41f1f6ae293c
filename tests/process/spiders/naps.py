"""Naps: every callback sleeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Naps(Spider):
    name = "naps"
    settings = {"concurrency": 3, "delay": 0}

    def start(self, url: str, pages: int) -> Iterator[Any]:
        for page in range(pages):
            yield Request(f"{url}{page}")

    def parse(self, response: Response) -> None:
        time.sleep(0.15)
