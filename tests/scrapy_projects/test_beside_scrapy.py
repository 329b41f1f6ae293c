"""The same spiders by Scrapy and by our engine, on the same site: equal items and stats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scrapy_projects.beside import Beside, as_set, beside_scrapy

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
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    out = tmp_path_factory.mktemp("scrapy")
    env = {"SHOP_FILES": str(out / "files"), "SCRAPY_SETTINGS_MODULE": "shop.settings"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_FILES", str(tmp_path_factory.mktemp("files")))
        with beside_scrapy(HERE / "shop", out, SPIDERS, **env) as beside:
            yield beside


@pytest.mark.parametrize("name", SPIDERS)
def test_items_and_stats_are_those_of_scrapy(name: str, beside: Beside) -> None:
    theirs, ours, stats = beside.theirs(name), beside.ours(name), beside.stats(name)
    assert theirs, "Scrapy found nothing"
    assert as_set(ours.items) == as_set(theirs), ours.ended
    counted = {key: value for key, value in stats.items() if key.startswith(STATS)}
    assert {key: ours.stats[key] for key in ours.stats if key.startswith(STATS)} == counted
    dropped = sum(number for key, number in ours.stats.items() if key.startswith("dropped/"))
    assert dropped == stats.get("item_dropped_count", 0)
    (spider,) = ours.spiders
    known = spider._port.crawler.stats.get_stats()
    for key in ("finish_reason", "item_scraped_count"):
        assert known[key] == stats[key]
