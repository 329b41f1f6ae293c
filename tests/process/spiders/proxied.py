"""Proxied: some pages of many hosts, through the pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider

DELAY = 1.0  # seconds


class Proxied(Spider):
    name = "proxied"
    settings = {"proxy": "pool", "delay": DELAY, "robots": False, "timeout": 20}

    def start(self, port: int, hosts: int, each: int) -> Iterator[Any]:
        for page in range(each):
            for host in range(hosts):
                yield Request(f"http://h{host}.localhost:{port}/{page}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "source": response.text}
