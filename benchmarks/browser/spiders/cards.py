"""Pages of cards that only a browser has, among pages that do harm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.browser.site import EVILS
from crawlframe import Request, Response, Spider

TIMEOUT = 4.0  # seconds, of a page that does harm
EVIL_RETRIES = 2
RETRIES = 8  # of one that does not: its browser may be killed beside it


class Cards(Spider):
    """``evil``: of 20 pages, one of each kind of EVILS."""

    name = "cards"
    settings = {
        "downloader": "browser",
        "browser_settle": 0,
        "concurrency": 64,
        "delay": 0,
        "robots": False,
        "timeout": 60,
        "max_body": 4 << 20,
        "failed_share": 1,
        "traps": "off",
    }

    def start(self, site: str, pages: int, first: int = 0, evil: bool = False) -> Iterator[Request]:
        for number in range(first, first + pages):
            kind = number * 13 % 20  # so that they are spread evenly
            if evil and kind < len(EVILS):
                # A host of its own, because one that fails so often is left alone for a while.
                host = site.replace("127.0.0.1", f"evil{number}.localhost")
                url = f"{host}{EVILS[kind]}/{number}"
                yield Request(url, timeout=TIMEOUT, retries=EVIL_RETRIES)
            else:
                yield Request(f"{site}cards/{number}", retries=RETRIES)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "cards": len(response.tree.css(".card"))}
