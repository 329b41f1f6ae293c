"""Pages that a browser fetches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crawlframe import Request, Response, Spider


class Rendered(Spider):
    """Follows all links of the first page."""

    name = "rendered"
    settings = {
        "downloader": "browser",
        "retries": 20,
        "browser": {"settle": 0},
        "timeout": 20,
        "concurrency": 4,
    }

    def start(self, url: str) -> Iterator[Request]:
        yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        # Only a browser adds the element that the server leaves out.
        yield {"url": response.url, "rendered": "<head></head>" in response.text}
        yield from response.follow_all(response.links())
