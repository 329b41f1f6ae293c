"""Runs spiders of a project by Scrapy itself: ``python real.py SITE OUT NAME...``, in the project's
directory. Writes NAME.jsonl and NAME.stats for each into OUT. A spider with an attribute ``out``
is given the path OUT/NAME.out."""

import json
import sys
from pathlib import Path

from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings


def main(site: str, out: str, names: list[str]) -> None:
    settings = get_project_settings()
    settings.set("FEEDS", {f"{out}/%(name)s.jsonl": {"format": "jsonlines"}}, "cmdline")
    settings.set("LOG_LEVEL", "ERROR", "cmdline")
    process = CrawlerProcess(settings)
    crawlers = []
    for name in names:
        crawler = process.create_crawler(name)
        crawlers.append(crawler)
        more = {"out": f"{out}/{name}.out"} if hasattr(crawler.spidercls, "out") else {}
        process.crawl(crawler, site=site, **more)
    process.start()
    for name, crawler in zip(names, crawlers, strict=True):
        Path(out, f"{name}.stats").write_text(json.dumps(crawler.stats.get_stats(), default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
