"""Scrapy with AutoThrottle and robots.txt, the rest as it comes. Argument: a file of URLs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response


class Polite(Spider):
    name = "polite"

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = Path(file)

    async def start(self) -> AsyncIterator[Any]:
        for url in self.file.read_text().split():
            yield Request(url)

    def parse(self, response: Response) -> Any:
        yield {"url": response.url}


def main() -> None:
    process = AsyncCrawlerProcess(
        {"AUTOTHROTTLE_ENABLED": True, "ROBOTSTXT_OBEY": True, "LOG_LEVEL": "WARNING"}
    )
    process.crawl(Polite, sys.argv[1])
    process.start()


if __name__ == "__main__":
    main()
