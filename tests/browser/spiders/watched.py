"""A spider to be watched: arguments of many types, and pages in a row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from crawlframe import Request, Response, Spider


class WatchedSpider(Spider):
    """Numbered pages of a small site.

    One item per page."""

    name = "watched"
    settings = {"concurrency": 2, "delay": 0, "retries": 0}

    def start(
        self,
        site: str,
        pages: Annotated[int, Meta(ge=1, le=100_000)] = 10,
        kind: Literal["news", "shop"] = "news",
        since: date | None = None,
        tags: list[str] | None = None,
        strict: bool = False,
    ) -> Iterator[Request]:
        for n in range(pages):
            yield Request(f"{site.rstrip('/')}/{n}")

    def parse(self, response: Response) -> Iterator[dict[str, object]]:
        yield {"url": response.url, "size": len(response.body), "title": "<b>=1+1</b>"}
