"""The examples of docs/guide/items.md do as the text says, and item loaders take our Response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from itemloaders import ItemLoader
from itemloaders.processors import TakeFirst

from crawlframe.testing import make_response, run
from tests.howto import spider_of

HOUSES = """
<div class=house><h2>Mill Lane 3</h2><b class=price>249000.00</b><i class=rooms>3</i>
<li>garden</div>
<div class=house><h2>Quay 1</h2><b class=price>on request</b></div>
<div class=house><b class=price>5</b></div>
<div class=house><h2>Hill 9</h2><b class=price>5</b></div>"""


def test_typed_items() -> None:
    result = run(spider_of("guide/items.md", "houses"), make_response(html=HOUSES))
    assert result.items == [
        {"address": "Mill Lane 3", "price": "249000.00", "rooms": 3, "features": ["garden"]},
        {"address": "Hill 9", "price": "5", "rooms": None, "features": []},
    ]
    assert result.dropped == {
        "price: Invalid decimal string": 1,
        "address: Expected str, got null": 1,
    }


def test_items_in_pipelines() -> None:
    page = make_response(html="<h1> A  <b></b></h1><h2>B\nb</h2>")
    source = page.url
    assert run(spider_of("guide/items.md", "books"), page).items == [
        {"title": "A", "source": source},
        {"title": "B b", "source": source},
    ]
    page = make_response(html="<h1> </h1>")
    assert run(spider_of("guide/items.md", "books"), page).dropped == {"no title": 2}


@dataclass
class Book:
    title: str
    price: float


@pytest.mark.parametrize("make", [dict, Book])
@pytest.mark.parametrize(("page", "name"), [("items", "shop"), ("spider", "novels")])
def test_the_pipelines_of_the_guide_take_items_of_all_kinds(
    page: str, name: str, make: Any
) -> None:
    spider = spider_of(f"guide/{page}.md", name)

    class Other(spider):  # type: ignore[misc,valid-type]
        def parse(self, response: Any) -> Any:
            yield make(title=" A ", price=2.0)

    [item] = run(Other, make_response()).items
    assert item["title"].strip() == "A"
    assert item.keys() & {"euros", "collected_at"}


def test_item_loaders() -> None:
    page = make_response(
        html="<h1> A </h1><p class=price>£ 5.50</p><a class=tag>x</a><a class=tag>y"
    )
    assert run(spider_of("guide/items.md", "loaded_books"), page).items == [
        {"title": "A", "price": 5.5, "tags": ["x", "y"], "url": page.url}
    ]


def test_item_loaders_take_json_and_parts_of_a_page() -> None:
    loader = ItemLoader(selector=make_response(json={"book": {"title": "A"}}).selector)
    loader.add_jmes("title", "book.title")
    assert loader.load_item() == {"title": ["A"]}

    class Loader(ItemLoader):
        default_item_class = Book
        default_output_processor = TakeFirst()

    loader = Loader(Book("", 0), make_response(html="<div><b>A</b></div><b>B</b>").selector)
    loader.nested_css("div").add_css("title", "b::text")
    assert loader.load_item() == Book("A", 0)
