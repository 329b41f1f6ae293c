"""Scrapy on the standard job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from scrapy.crawler import AsyncCrawlerProcess

from benchmarks.standard.contenders.peer.garbage import OFTEN, RARELY, collect
from benchmarks.standard.contenders.peer.words import heard, tell
from benchmarks.standard.contenders.scrapy.spiders import OwnSet, Shipped, Tutorial, settings

NOTES = """
{in_flight} in flight, memory queues, CONCURRENT_ITEMS=2, uvloop, {parser}; unneeded middlewares,
extensions, statistics and log records off; rows in batches by a thread, as one jsonb parameter
"""
FAST = "compiled lxml XPath on the bytes, links joined by can_ada, garbage collected rarely"
TUTORIAL = "response.css and response.follow_all"


def main() -> None:
    words = heard(tutorial=True)
    process = AsyncCrawlerProcess(settings(words))
    crawler = process.create_crawler(
        OwnSet if words.own_set else Tutorial if words.parsel else Shipped
    )
    process.crawl(crawler, words.start)
    collect(OFTEN if words.parsel else RARELY)
    process.start()
    spider: Any = crawler.spider
    notes = NOTES.format(in_flight=words.in_flight, parser=TUTORIAL if words.parsel else FAST)
    tell(spider.writer.stored, spider.writer.last - spider.first, notes)


if __name__ == "__main__":
    main()
