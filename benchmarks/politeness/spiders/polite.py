"""Spiders with the default settings, which are the polite ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlframe import Request, Response, Spider


class Polite(Spider):
    """Asks once for each URL of a file, one on a line."""

    name = "polite"

    def start(self, file: str) -> Iterator[Request]:
        for url in Path(file).read_text().split():
            yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


class Shared(Polite):
    """A spider with limits of an address and none of its names."""

    name = "shared"
    settings = {"delay": 0.0, "ip": {"delay": 0.1, "concurrency": 2}}
