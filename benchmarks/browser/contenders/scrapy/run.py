"""Scrapy with scrapy-playwright: one context, as many pages at a time as a node has, images, fonts
and media aborted, as its documentation recommends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.spidermiddlewares.httperror import HttpError

from benchmarks.browser.contenders.words import (
    EVIL_RETRIES,
    EVIL_TIMEOUT,
    RETRIES,
    TIMEOUT,
    Rows,
    Words,
)

BLOCKED = ("image", "font", "media")


class Cards(scrapy.Spider):
    name = "cards"

    def __init__(self, words: Words, rows: Rows, **more: Any) -> None:
        super().__init__(**more)
        self.words, self.rows = words, rows

    async def start(self) -> Any:
        for url, evil in self.words.urls():
            limit = EVIL_TIMEOUT if evil else TIMEOUT
            yield scrapy.Request(
                url,
                errback=self.failed,
                dont_filter=True,
                meta={
                    "playwright": True,
                    "playwright_page_goto_kwargs": {"timeout": 1000 * limit},
                    "download_timeout": limit + 5,
                    "max_retry_times": EVIL_RETRIES if evil else RETRIES,
                },
            )

    def parse(self, response: Any) -> Iterator[Any]:
        self.rows.page(response.request.url, response.text)
        yield from ()

    def failed(self, failure: Any) -> None:
        url = failure.request.url if hasattr(failure, "request") else failure.value.response.url
        error = failure.value
        self.rows.failed(url, error.response if isinstance(error, HttpError) else error)


def main() -> None:
    words = Words.heard()
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    process = CrawlerProcess(
        {
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
            "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": words.program, "args": words.flags},
            "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": words.at_once,
            "PLAYWRIGHT_ABORT_REQUEST": lambda request: request.resource_type in BLOCKED,
            "CONCURRENT_REQUESTS": words.at_once,
            "CONCURRENT_REQUESTS_PER_DOMAIN": words.at_once,
            "DOWNLOAD_DELAY": 0,
            "DOWNLOAD_MAXSIZE": 4 << 20,
            "ROBOTSTXT_OBEY": False,
            "RETRY_EXCEPTIONS": ["builtins.Exception"],
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(Cards, words=words, rows=Rows(words))
    process.start()


if __name__ == "__main__":
    main()
