"""Crawlee with its throttle for the hosts of the URLs, and robots.txt, the rest as it comes.
Argument: a file of URLs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.request_loaders import ThrottlingRequestManager
from crawlee.storage_clients import MemoryStorageClient
from crawlee.storages import RequestQueue


async def crawl(urls: list[str]) -> None:
    storage = MemoryStorageClient()
    throttle = ThrottlingRequestManager(
        inner=await RequestQueue.open(storage_client=storage),
        domains=sorted({urlsplit(url).hostname or "" for url in urls}),
        request_manager_opener=RequestQueue.open,
    )
    crawler = HttpCrawler(
        request_manager=throttle, respect_robots_txt_file=True, storage_client=storage
    )

    async def parse(context: HttpCrawlingContext) -> None:
        await context.push_data({"url": context.request.url})

    crawler.router.default_handler(parse)
    await crawler.run(urls)


if __name__ == "__main__":
    asyncio.run(crawl(Path(sys.argv[1]).read_text().split()))
