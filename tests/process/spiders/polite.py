"""Polite: some pages of many hosts, partly forbidden by robots.txt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Polite(Spider):
    name = "polite"
    settings = {"delay": 0, "concurrency": 4}

    def start(self, hosts: list[str], pages: int) -> Iterator[Any]:
        for page in range(pages):
            for host in hosts:
                yield Request(f"http://{host}/open/{page}")
                yield Request(f"http://{host}/private/{page}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class Patient(Polite):
    name = "patient"
    settings = {"delay": 1}
