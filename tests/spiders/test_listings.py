"""The experiment of Zhao and Liu (docs/sources.md): exactly the generator's items."""

from __future__ import annotations

import pytest

from examples.demo_site import DemoServer
from spiders.listings import ListingsSpider
from tests.spiders.driver import Crawl


@pytest.mark.parametrize("error_rate", [0, 0.2])
def test_items_are_exactly_those_of_the_generator(error_rate: float) -> None:
    with DemoServer(listings=150, page_size=6, error_rate=error_rate) as demo:
        crawl = Crawl(ListingsSpider, site=f"{demo.url}/")
        stats = demo.stats()
    assert sorted(crawl.items, key=lambda item: item["id"]) == list(demo.site.expected_items())
    assert crawl.failures == {}
    assert len(set(crawl.fetched)) == demo.site.crawl_pages()
    tries = {1, 2} if error_rate else {1}
    assert set(stats["paths"].values()) == tries
    assert crawl.duplicates > 3 * len(crawl.items)


def test_each_item_takes_two_requests() -> None:
    with DemoServer(listings=30) as demo:
        crawl = Crawl(ListingsSpider, site=demo.url)
        paths = demo.stats()["paths"]
    for item in crawl.items:
        assert paths[f"/listing/{item['id']}"] == 1
        assert paths[f"/api/visits/{item['id']}"] == 1


def test_another_city_is_another_keyword() -> None:
    with DemoServer(listings=10, city="Köln") as demo:
        assert len(Crawl(ListingsSpider, site=demo.url, city="Köln").items) == 10
        nothing = Crawl(ListingsSpider, site=demo.url, city="Ulm & Umgebung")
    assert nothing.items == []
    assert len(nothing.fetched) == 1
