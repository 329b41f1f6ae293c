"""The fields that an item must have, and their declaration by an author."""

from __future__ import annotations

import dataclasses

import attrs
import msgspec
import pytest

from crawlframe import Expect, Spider
from crawlframe.errors import SpiderError
from crawlframe.recipes.reading import from_data
from crawlframe.recipes.spider import spider_of
from crawlframe.render.required import required_of
from crawlframe.spider.spider import describe


@dataclasses.dataclass
class Plain:
    name: str
    price: float | None
    stock: int = 0


@attrs.define
class Attrs:
    name: str
    stock: int = 0


class Struct(msgspec.Struct):
    name: str
    stock: int = 0


def auto(**declared):
    members = {"name": "auto", "settings": {"render": "auto"}, "parse": lambda self, response: None}
    return type("Auto", (Spider,), members | declared)


def test_fields_that_most_items_are_expected_to_have():
    assert required_of(auto(expect=Expect(fields={"price": 0.98, "sale": 0.2}))) == ("price",)
    assert required_of(auto()) == ()


@pytest.mark.parametrize("kind", [Plain, Attrs, Struct])
def test_fields_of_the_class_of_the_items_that_have_no_default_and_are_not_none(kind):
    assert required_of(auto(item=kind)) == ("name",)


def test_fields_of_a_pydantic_class():
    pydantic = pytest.importorskip("pydantic")
    kind = pydantic.create_model("Kind", name=(str, ...), price=(float | None, ...), n=(int, 0))
    assert required_of(auto(item=kind)) == ("name",)


def test_a_spider_must_say_when_a_page_is_incomplete():
    with pytest.raises(SpiderError, match="name the fields"):
        describe(auto())
    describe(auto(expect=Expect(fields={"price": 1})))
    describe(auto(needs_browser=lambda self, response: True))


def test_needs_browser_must_be_a_plain_method_with_the_response():
    async def later(self, response):
        return True

    for method in (later, lambda self: True, True):
        with pytest.raises(SpiderError, match="needs_browser"):
            describe(auto(needs_browser=method))


def test_a_spider_whose_pages_are_all_rendered_cannot_choose():
    with pytest.raises(SpiderError, match="leave one of render and downloader out"):
        describe(auto(settings={"render": "auto", "downloader": "browser"}))


@pytest.mark.parametrize(
    "said",
    [
        {"required": ["name"]},
        {"expect": {"fields": {"name": 1}}},
        {"detail": {"css": "a", "fields": {"price": "b"}, "required": ["price"]}},
    ],
)
def test_a_recipe_says_it_by_its_required_fields(said):
    data = {"name": "some", "start_urls": ["https://a.example/"], "fields": {"name": "h1"}}
    spider = spider_of(from_data({**data, "settings": {"render": "auto"}, **said}), "some")
    assert required_of(spider) == (("price",) if "detail" in said else ("name",))
    describe(spider)
