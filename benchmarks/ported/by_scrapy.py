"""Runs the spider by Scrapy: ``python by_scrapy.py START OUT``, in the project. Prints what it took
from the start of the engine to its end, and in all, as a line of JSON."""

import json
import sys
import time

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings


def main(start: str, out: str) -> None:
    settings = get_project_settings()
    settings.set("FEEDS", {out: {"format": "jsonlines"}}, "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler("standard")
    at: dict[str, float] = {}

    def note(name: str) -> None:
        at[name] = time.process_time()

    def started() -> None:
        note("started")

    def stopped() -> None:
        note("stopped")

    crawler.signals.connect(started, signals.engine_started)
    crawler.signals.connect(stopped, signals.engine_stopped)
    process.crawl(crawler, start_url=start)
    process.start()
    crawl = at["stopped"] - at["started"]
    print(json.dumps({"crawl": crawl, "whole": time.process_time()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
