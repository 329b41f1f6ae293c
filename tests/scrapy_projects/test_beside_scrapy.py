"""The same spiders by Scrapy and by our engine, on the same site: equal items and stats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.code.registry import Registry
from crawlframe.scrapy.project import spiders_of
from tests.scrapy_projects.ours import Crawled, crawl
from tests.scrapy_projects.site import Site

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]
HERE = Path(__file__).parent
SPIDERS = [
    "css", "rules", "loader", "login", "sitemap", "xml", "csv", "api", "objects", "pipes",
    "async_pipes", "arguments", "errors", "middlewares", "closes", "inline", "cookies", "members",
    "files", "moved",
]  # fmt: skip
# Stats of spiders of these projects, and stats of Scrapy for users.
STATS = ("my/", "priced/", "shop/")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


@pytest.fixture(scope="module")
def by_scrapy(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scrapy")
    done = subprocess.run(
        [sys.executable, HERE / "real.py", site.url, out, *SPIDERS],
        cwd=HERE / "shop",
        env={
            **os.environ,
            "SHOP_FILES": str(out / "files"),
            "SCRAPY_SETTINGS_MODULE": "shop.settings",
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_FILES", str(tmp_path_factory.mktemp("files")))
        registry = spiders_of(HERE / "shop")
    assert registry.broken == {}
    return registry


def as_set(items: list[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


@pytest.mark.parametrize("name", SPIDERS)
def test_items_and_stats_are_those_of_scrapy(
    name: str, site: Site, by_scrapy: Path, registry: Registry
) -> None:
    theirs = [json.loads(line) for line in (by_scrapy / f"{name}.jsonl").read_text().splitlines()]
    ours: Crawled = crawl(registry, name, site=site.url)
    assert theirs, "Scrapy found nothing"
    assert as_set(ours.items) == as_set(theirs), ours.ended
    stats = json.loads((by_scrapy / f"{name}.stats").read_text())
    counted = {key: value for key, value in stats.items() if key.startswith(STATS)}
    assert {key: ours.stats[key] for key in ours.stats if key.startswith(STATS)} == counted
    dropped = sum(number for key, number in ours.stats.items() if key.startswith("dropped/"))
    assert dropped == stats.get("item_dropped_count", 0)
    (spider,) = ours.spiders
    known = spider._port.crawler.stats.get_stats()
    for key in ("finish_reason", "item_scraped_count"):
        assert known[key] == stats[key]
