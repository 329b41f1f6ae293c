"""A site of pages that change; each URL says how much its page matters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from crawlframe import Request, Response, Revisit, Spider


class ChangingSpider(Spider):
    """``urls`` is a file with one URL in each line."""

    name = "changing"
    settings: ClassVar[dict[str, Any]] = {
        "delay": 0,
        "concurrency": 64,
        "robots": False,
        "traps": "off",
    }
    revisit = {"parse": Revisit(budget=1e9), "start": Revisit(every="52w")}

    def start(self, urls: str) -> Iterator[Request]:
        for url in Path(urls).read_text().split():
            yield Request(url)

    def importance(self, request: Request) -> float:
        return float(parse_qs(urlsplit(request.url).query)["w"][0])

    def parse(self, response: Response) -> None:
        """What it says is compared."""
