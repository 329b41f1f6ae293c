"""The comparison with the demo site's generator sees every kind of difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.frontier import Frontier
from crawlservice.models import Page, Task
from examples.demo_site import Site
from examples.demo_site.verify import compare

SITE = Site(30)


@pytest.fixture
def stored(service: Frontier, add_page: Callable[..., Page]) -> Callable[[list[Any]], Task]:
    def make(items: list[Any]) -> Task:
        task = Task.objects.create(spider="listings", seeds=b"")
        add_page(task, b"all", items=items)
        return task

    return make


def test_exactly_the_items_of_the_site(stored: Callable[[list[Any]], Task]) -> None:
    items = [*SITE.expected_items()]
    assert compare(stored(items[::-1]), SITE) == (True, "30 of 30 listings, all as generated")


def test_each_difference_is_reported(stored: Callable[[list[Any]], Task]) -> None:
    first, second, third, *rest = SITE.expected_items()
    foreign = {**first, "id": 999_999}
    changed = {**second, "price": -1}
    items = [first, changed, *rest, rest[0], foreign, {"no": "id"}]
    right, words = compare(stored(items), SITE)
    assert not right
    assert words.startswith("28 of 30 listings; ")
    assert f"1 missing ({third['id']})" in words
    assert f"1 different ({second['id']})" in words
    assert f"1 stored twice or more ({rest[0]['id']})" in words
    assert "2 not of this site (999999, None)" in words
