"""Expect: its declarations, in a spider, in a recipe, and in a Scrapy project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlframe import Expect, Spider
from crawlframe.base.expect import expectation
from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError
from crawlframe.recipes.reading import RecipeError, from_data, from_text
from crawlframe.recipes.recipe import as_text
from crawlframe.recipes.spider import spider_of
from crawlframe.spider.spider import SpiderInfo, describe

RECIPE = {"name": "shop", "start_urls": ["https://shop.example/"]}


class Shop(Spider):
    name = "shop"
    start_urls = ("https://shop.example/",)
    expect = Expect(items=100, fields={"price": 0.98}, errors=0.05, unique="sku", within=3600)

    def parse(self, response: Any) -> None: ...


def test_an_expectation_is_published() -> None:
    info = describe(Shop)
    assert info.expect == Shop.expect
    assert info.expect.unique == ("sku",)
    read = msgspec.json.decode(msgspec.json.encode(info), type=SpiderInfo)
    assert read == info
    assert b'"action"' not in msgspec.json.encode(info)  # an undeclared action is not written


def test_a_spider_without_expectations() -> None:
    class Plain(Shop):
        expect = None  # type: ignore[assignment]

    assert describe(Plain).expect is None
    assert expectation(None) is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"item": 1}, "there is no key 'item' (did you mean 'items'?)"),
        ({"items": -1}, "items is -1; give the least number of items, such as 100"),
        ({"items": 1.5}, "items is 1.5; give the least number"),
        ({"items": True}, "items is True; give the least number"),
        ({"fields": {"price": 98}}, "fields: price is 98; give a share from 0 to 1, such as 0.98"),
        ({"fields": ["price"]}, "fields is ['price']; give a share for each field"),
        ({"fields": {"": 1}}, "fields: '' is not the name of a field"),
        ({"errors": 5}, "errors is 5; give a share of the pages from 0 to 1, such as 0.05"),
        ({"unique": 3}, 'unique is 3; give names of fields, such as "sku"'),
        ({"unique": [""]}, "unique is ('',); give names of fields"),
        ({"within": "1 h"}, "within is '1 h'; give seconds, such as 3600"),
        ({"within": float("inf")}, "within is inf; give seconds"),
        ({"action": "stop"}, "action is 'stop'; give one of alert, pause, cancel, refuse"),
        ({"monitors": "no"}, "monitors is 'no'; give True or False"),
    ],
)
def test_mistakes(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError) as found:  # noqa: PT011 - its text is looked at
        expectation(given)
    assert str(found.value).startswith(f"expect: {problem}")
    with pytest.raises(RecipeError) as told:
        from_data({**RECIPE, "expect": given})
    assert f"{next(iter(given))}: {problem}" in str(told.value)


def test_another_type_is_refused() -> None:
    class Wrong(Shop):
        expect = 100  # type: ignore[assignment]

    with pytest.raises(SpiderError, match=r"expect must be Expect\(...\), such as Expect\(items"):
        describe(Wrong)


def test_an_argument_of_this_name() -> None:
    class Wrong(Shop):
        expect: int = 100  # type: ignore[assignment,misc]

    with pytest.raises(SpiderError, match="expect is a name of Spider's own; rename the argument"):
        describe(Wrong)


def test_a_mistake_names_file_and_line(tmp_path: Path) -> None:
    package = tmp_path / "pricey"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "shop.py").write_text(
        "from crawlframe import Expect, Spider\n\nclass Shop(Spider):\n    name = 'shop'\n"
        "    expect = Expect(fields={'price': 98})\n"
    )
    (problem,) = Registry.load(package).broken.values()
    assert "shop.py:5: ValueError: expect: fields: price is 98; give a share" in problem


def test_a_recipe() -> None:
    text = (
        'name = "shop"\nstart_urls = ["https://shop.example/"]\n[expect]\nitems = 5\n'
        'unique = ["sku"]\nfields = { price = 0.9 }\n'
    )
    recipe = from_text(text, "toml", "shop.toml")
    assert recipe is not None
    expected = Expect(items=5, unique="sku", fields={"price": 0.9})
    assert describe(spider_of(recipe, "shop")).expect == expected
    again = from_text(as_text(recipe), "json", "shop.json")
    assert again == recipe
    with pytest.raises(SpiderError, match=r"shop.toml:4: expect.items: items is -1; give"):
        from_text(text.replace("= 5", "= -1"), "toml", "shop.toml")


@pytest.mark.parametrize("written", ["attribute", "setting"])
def test_a_scrapy_project(written: str) -> None:
    import scrapy
    from scrapy.settings import Settings

    from crawlframe.scrapy.spider import ported

    class Prices(scrapy.Spider):
        name = "prices"
        custom_settings: Any = None

    settings = Settings()
    if written == "attribute":
        Prices.expect = {"items": 7}  # type: ignore[attr-defined]
    else:
        Prices.custom_settings = {"CRAWLFRAME_EXPECT": {"items": 7}}
    assert describe(ported(Prices, settings)).expect == Expect(items=7)


@pytest.mark.parametrize(
    "given",
    [{"items": 10**400}, {"fields": {"pri\0ce": 0.5}}, {"unique": "s\0ku"}, {"unique": "\ud800"}],
)
def test_what_cannot_be_stored_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="expect: "):
        Expect(**given)


def test_whole_floats_are_numbers_of_items() -> None:
    expect = Expect(items=100.0)  # type: ignore[arg-type]
    assert msgspec.json.decode(msgspec.json.encode(expect), type=Expect) == Expect(items=100)
