"""All pages of the site: rendered when they must be, or always."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.auto_render.site import KINDS
from crawlframe import Expect, Request, Response, Spider


class Mixed(Spider):
    """One callback for pages of all types."""

    name = "mixed"
    settings = {
        "render": "auto",
        "concurrency": 16,
        "delay": 0,
        "robots": False,
        "timeout": 60,
        "retries": 5,
        "failed_share": 1,
        "traps": "off",
    }
    expect = Expect(fields={"name": 1, "price": 0.95})

    def start(self, site: str, pages: int) -> Iterator[Request]:
        for number in range(pages):
            for kind in KINDS:
                yield Request(f"{site}{kind}/{number}")

    def needs_browser(self, response: Response) -> bool:
        return response.css("#more").get() is not None

    def parse(self, response: Response) -> Iterator[Any]:
        for item in json.loads(response.css("#data::text").get() or "[]"):
            yield {"url": response.url, **item}
        for card in response.css("article"):
            price = card.css(".price::text").get()
            yield {"url": response.url, "name": card.css("h2::text").get(), "price": price}


class Rendered(Mixed):
    """The same, all by the browser."""

    name = "rendered"
    settings = {"render": None, "downloader": "browser"}
