"""self.stats of a spider outside of a worker, and its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe import Spider
from crawlframe.base.stats import MAX_NAME, MAX_NAMES
from crawlframe.errors import SpiderError


class Shop(Spider):
    name = "shop"


def test_a_spider_outside_of_a_worker_keeps_its_numbers() -> None:
    spider = Shop()
    spider.stats.inc("books")
    spider.stats.inc("books", 4)
    spider.stats.max("price", 2.5)
    spider.stats.max("price", -1)
    assert spider.stats.counters == {"books": 5}
    assert spider.stats.maxima == {"price": 2.5}
    assert Shop().stats.counters == {}


@pytest.mark.parametrize(
    ("name", "n", "words"),
    [
        ("", 1, "a text of 1 to 100 characters"),
        ("n" * (MAX_NAME + 1), 1, "a text of 1 to 100 characters"),
        (b"name", 1, "a text of 1 to 100 characters"),
        ("dropped/old", 1, "count dropped items; use another one"),
        ("price", 1.5, "n must be an int, not 1.5"),
        ("price", True, "n must be an int, not True"),
        ("price", 2**60, "n must be an int"),
    ],
)
def test_what_cannot_be_counted_is_named(name: Any, n: Any, words: str) -> None:
    with pytest.raises(SpiderError, match=words):
        Shop().stats.inc(name, n)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "3", None, 2**60])
def test_a_maximum_is_a_finite_number(value: Any) -> None:
    with pytest.raises(SpiderError, match="is not a finite int or float"):
        Shop().stats.max("price", value)


def test_a_task_has_so_many_names() -> None:
    stats = Shop().stats
    for n in range(MAX_NAMES):
        stats.inc(f"name {n}")
    stats.inc("name 3")
    with pytest.raises(SpiderError, match="100 names already; names are for kinds"):
        stats.inc("one more")
