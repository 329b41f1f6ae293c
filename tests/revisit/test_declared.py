"""Revisit: declarations of an author, and their publication."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawlframe import Revisit, Spider
from crawlframe.errors import SpiderError
from crawlframe.revisit.declared import DAY, group_of, policy_of
from crawlframe.spider.spider import SpiderInfo, describe
from crawlframe.spiders.sitemap import SitemapSpider


def spider(policy: Any, base: type[Spider] = Spider, **more: Any) -> type[Spider]:
    def parse(self: Any, response: Any) -> None: ...

    def price(self: Any, response: Any) -> str:
        return ""

    return type("Shop", (base,), {"name": "shop", "parse": parse, "price": price,
                                  "revisit": policy, **more})  # fmt: skip


def test_a_policy_is_published() -> None:
    info = describe(spider(Revisit(budget=500, host_budget=100, ignore=".ad", key="sku")))
    assert info.revisit["*"].budget == 500
    assert info.revisit["*"].ignore == (".ad",)
    assert info.revisit["start"].interval == DAY
    assert msgspec.json.decode(msgspec.json.encode(info), type=SpiderInfo) == info


def test_callbacks_have_their_own() -> None:
    kind = spider(None)
    policies = describe(
        spider({kind.parse: Revisit(every="12h"), "start": Revisit(every="1h")})
    ).revisit
    assert policies["parse"].interval == DAY / 2
    assert policies["start"].interval == 3600
    assert policy_of(policies, "other") is None


def test_callbacks_that_only_find_pages_are_not_visited_by_themselves() -> None:
    site = spider(Revisit(by="lastmod"), SitemapSpider, sitemap_urls=["https://a.example/s.xml"])
    policies = describe(site).revisit
    assert policy_of(policies, "read_sitemap", site._discovers) is None
    assert policy_of(policies, "parse", site._discovers) == Revisit(by="lastmod")
    assert group_of(policies, "parse") == "*"


def test_nothing_is_declared() -> None:
    assert describe(spider(None)).revisit == {}


def test_a_callback_may_have_its_name() -> None:
    assert describe(spider(lambda self, response: None)).revisit == {}


def test_a_method_compares() -> None:
    kind = spider(None)
    assert Revisit(every="1d", compare=kind.price).compare == "price"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "say when"),
        ({"every": "soon"}, "'soon'; write a number and s, m, h, d or w"),
        ({"every": 5}, "60 seconds to 10 years"),
        ({"every": -5}, "above 0"),
        ({"budget": True}, "budget is True"),
        ({"budget": 5, "every": "1d"}, "leave every and by out"),
        ({"host_budget": 5, "every": "1d"}, "host_budget needs a budget"),
        ({"by": "date"}, 'the only choice is "lastmod"'),
        ({"every": "1d", "ignore": "]["}, "no CSS selector"),
        ({"every": "1d", "ignore": ".x", "compare": "items"}, "ignore is for the body"),
        ({"every": "1d", "key": [1]}, "give a list of text"),
        ({"every": "1d", "errors": 1}, "give True or False"),
    ],
)
def test_wrong_policies_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"^revisit: ") as caught:
        Revisit(**given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "must be Revisit"),
        ({"parse": 5}, "parse must be Revisit"),
        ({"parze": Revisit(every="1d")}, "no method 'parze'"),
        ({"start": Revisit(budget=5)}, "start runs at an interval"),
        (Revisit(every="1d", compare="itens"), "no method of this name"),
    ],
)
def test_what_a_spider_may_not_say(given: Any, words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        describe(spider(given))
    assert words in str(caught.value)
