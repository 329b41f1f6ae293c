"""Spiders that break objects they are not supposed to touch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from crawlframe import Request, Response, Spider


class Rude(Spider):
    """``what``: name of the page's callback."""

    name = "rude"
    settings = {"concurrency": 32, "delay": 0}

    def start(self, url: str, what: str) -> Iterator[Request]:
        yield Request(url + "fine")
        yield Request(url + "rude", what)

    def parse(self, response: Response) -> dict[str, str]:
        return {"url": response.url}

    def cancelled(self, response: Response) -> None:
        raise asyncio.CancelledError

    def interrupted(self, response: Response) -> None:
        raise KeyboardInterrupt

    def far_future(self, response: Response) -> Request:
        return Request(response.url + "/later", delay=1e17)

    def too_much(self, response: Response) -> Iterator[dict[str, str]]:
        for number in range(30):
            yield {"text": str(number % 10) * (3 << 20)}


class Quitter(Rude):
    """Leaves before it is made."""

    name = "quitter"

    def __init__(self) -> None:
        raise SystemExit(4)
