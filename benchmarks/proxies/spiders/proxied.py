"""Proxied: some pages of many hosts, through the pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider

from .sending import watch

watch()


class Proxied(Spider):
    name = "proxied"
    settings = {"proxy": "pool", "robots": False, "timeout": 30}

    def start(self, port: int, hosts: int, requests: int) -> Iterator[Any]:
        for number in range(requests):
            yield Request(f"http://h{number % hosts}.localhost:{port}/{number // hosts}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
