"""``python -m benchmarks.scrapy_projects.by_scrapy``, in a project's directory: reads crawls (JSON:
spider and arguments, one a line), runs each by Scrapy itself, and prints a line for each: its items
as they are after all pipelines."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from scrapy import signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor

from benchmarks.scrapy_projects.fence import Resolver
from crawlframe.items import encode_item
from crawlframe.scrapy.items import with_text

REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
# What only makes a crawl of local pages slow, or writes files that nobody reads.
OVER = {
    "AUTOTHROTTLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "FEEDS": {},
    "HTTPCACHE_ENABLED": False,
    "LOG_ENABLED": False,
    "SPIDER_LOADER_WARN_ONLY": True,
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR": REACTOR,
}


async def crawl(runner: AsyncCrawlerRunner, spider: str, arguments: dict[str, Any]) -> Any:
    items: list[Any] = []

    def scraped(item: Any) -> None:
        items.append(json.loads(encode_item(with_text(item))))

    try:
        crawler = runner.create_crawler(spider)
        crawler.signals.connect(scraped, signals.item_scraped)
        await runner.crawl(crawler, **arguments)
    except Exception as error:
        return {"items": items, "error": f"{type(error).__name__}: {error}"}
    return {"items": items}


async def run(out: Any) -> None:
    settings = get_project_settings()
    for name, value in OVER.items():
        settings.set(name, value, "cmdline")
    runner = AsyncCrawlerRunner(settings)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        made = await crawl(runner, asked["spider"], asked["arguments"])
        print(json.dumps(made, default=str), file=out, flush=True)


def main() -> None:
    sys.path.insert(0, str(Path.cwd()))  # as the command ``scrapy`` does
    warnings.simplefilter("ignore")
    logging.disable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what spiders print
    install_reactor(REACTOR)
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.internet.task import react

    Resolver(reactor).install_on_reactor()
    react(lambda _: Deferred.fromFuture(asyncio.ensure_future(run(out))))


if __name__ == "__main__":
    main()
