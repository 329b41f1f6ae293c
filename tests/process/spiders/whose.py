"""Whose: pages of many hosts, each with the process of the node that fetched it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider

DELAY = 0.2  # seconds


class Whose(Spider):
    name = "whose"
    settings = {"delay": DELAY, "concurrency": 1, "robots": False}

    def start(self, hosts: list[str], pages: int) -> Iterator[Any]:
        for page in range(pages):
            for host in hosts:
                yield Request(f"http://{host}/{page}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "master": os.getppid()}
