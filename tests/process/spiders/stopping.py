"""A spider whose callback stops at a prompt."""

from __future__ import annotations

from typing import Any

from crawlframe import Request, Response, Spider
from crawlframe.shell.shell import inspect


class StoppingSpider(Spider):
    """Asks how much it is."""

    name = "stopping"
    settings = {"delay": 0}

    def start(self, url: str) -> Any:
        yield Request(url)

    def parse(self, response: Response) -> Any:
        prices = [1]
        inspect(response)
        breakpoint()
        yield {"prices": prices}
