"""``python -m benchmarks.scrapy_projects.by_crawlframe``, in a project's directory: as by_scrapy,
by the engine of a worker."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from crawlframe.conf import Settings
from crawlframe.scrapy.project import spiders_of
from tests.scrapy_projects.ours import crawl

WITHIN = Settings(
    allow_private=(ipaddress.ip_network("127.0.0.0/8"),),
    resolver="benchmarks.scrapy_projects.fence:resolve",
)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what spiders print
    registry = spiders_of(Path.cwd())
    while line := sys.stdin.readline():
        asked = json.loads(line)
        made: dict[str, Any]
        try:
            result = crawl(registry, asked["spider"], WITHIN, **asked["arguments"])
        except Exception as error:
            made = {"items": [], "error": f"{type(error).__name__}: {error}"}
        else:
            failed = {url: end for url, end in result.ended.items() if not end.startswith("done")}
            made = {"items": result.items, "stats": result.stats, "failed": failed}
        print(json.dumps(made, default=str), file=out, flush=True)


if __name__ == "__main__":
    main()
