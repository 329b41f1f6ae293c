"""Crawlee's PlaywrightCrawler: as many pages at a time as a node has, requests for images, fonts
and media blocked by its own ``block_requests``."""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import (
    BasicCrawlingContext,
    PlaywrightCrawler,
    PlaywrightCrawlingContext,
    PlaywrightPreNavCrawlingContext,
)
from crawlee.storage_clients import MemoryStorageClient

from benchmarks.browser.contenders.words import (
    EVIL_RETRIES,
    EVIL_TIMEOUT,
    RETRIES,
    TIMEOUT,
    Rows,
    Words,
)

BLOCKED = ["*.jpg", "*.jpeg", "*.png", "*.webp", "*.gif", "*.svg", "*.woff", "*.woff2", "*.mp4"]


async def crawl(words: Words, rows: Rows) -> None:
    crawler = PlaywrightCrawler(
        browser_type="chromium",
        headless=True,
        browser_launch_options={
            "executable_path": words.program,
            "args": words.flags,
            "chromium_sandbox": not words.root,
        },
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            words.at_once, words.at_once, desired_concurrency=words.at_once
        ),
        use_session_pool=False,
        retry_on_blocked=False,
        max_request_retries=RETRIES,
        navigation_timeout=timedelta(seconds=TIMEOUT),
        request_handler_timeout=timedelta(seconds=TIMEOUT),
        configure_logging=False,
    )

    @crawler.pre_navigation_hook  # type: ignore[untyped-decorator]
    async def block(context: PlaywrightPreNavCrawlingContext) -> None:
        await context.block_requests(url_patterns=BLOCKED)
        if context.request.label == "evil":
            context.page.set_default_navigation_timeout(1000 * EVIL_TIMEOUT)

    async def page(context: PlaywrightCrawlingContext) -> None:
        async with asyncio.timeout(EVIL_TIMEOUT if context.request.label == "evil" else TIMEOUT):
            rows.page(context.request.url, await context.page.content())

    @crawler.failed_request_handler  # type: ignore[untyped-decorator]
    async def failed(context: BasicCrawlingContext, error: Exception) -> None:
        rows.failed(context.request.url, error)

    crawler.router.default_handler(page)
    crawler.router.handler("evil")(page)
    await crawler.run(
        [
            Request.from_url(
                url, label="evil" if evil else None, max_retries=EVIL_RETRIES if evil else RETRIES
            )
            for url, evil in words.urls()
        ]
    )


def main() -> None:
    logging.disable(logging.ERROR)
    words = Words.heard()
    asyncio.run(crawl(words, Rows(words)))


if __name__ == "__main__":
    main()
