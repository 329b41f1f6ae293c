"""Faults: what goes wrong on a site, applied to the pages of a run from a point on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.quality.languages import WORDS, sentence
from benchmarks.quality.sites import SimulatedPage, Site

Fault = Callable[[Random, Site, list[SimulatedPage]], list[SimulatedPage]]


def field_gone(random: Random, site: Site, pages: list[SimulatedPage]) -> list[SimulatedPage]:
    name = random.choice(["price", "name", "description", "images"])
    empty = random.choice([None, "", "missing"])
    for item in _items(pages):
        if empty == "missing":
            del item[name]
        else:
            item[name] = empty
    return pages


def half_of_each_page(
    random: Random, site: Site, pages: list[SimulatedPage]
) -> list[SimulatedPage]:
    for page in pages:
        page.items = [item for item in page.items if random.random() < 0.5]
    return pages


def half_of_the_pages(
    random: Random, site: Site, pages: list[SimulatedPage]
) -> list[SimulatedPage]:
    return pages[::2]


def prices_zero(random: Random, site: Site, pages: list[SimulatedPage]) -> list[SimulatedPage]:
    for item in _items(pages):
        item["price"] = random.choice([0, 0.0])
    return pages


def section_gone(random: Random, site: Site, pages: list[SimulatedPage]) -> list[SimulatedPage]:
    gone = random.choice(site.sections)
    return [page for page in pages if page.section != gone]


def other_language(random: Random, site: Site, pages: list[SimulatedPage]) -> list[SimulatedPage]:
    other = random.choice([one for one in WORDS if one != site.language])
    for item in _items(pages):
        item["name"] = sentence(random, other, 3, 6)
        item["description"] = sentence(random, other, 8, 40)
    return pages


def captcha(random: Random, site: Site, pages: list[SimulatedPage]) -> list[SimulatedPage]:
    often = random.uniform(0.4, 1)
    for page in pages:
        if page.items and random.random() < often:
            wall = {"url": page.url, "name": "Are you a robot?", "price": None}
            page.items = [{**dict.fromkeys(page.items[0]), **wall}]
    return pages


def broken_encoding(random: Random, site: Site, pages: list[SimulatedPage]) -> list[SimulatedPage]:
    wrong = random.choice(["latin-1", "cp1252", "ascii"])
    for item in _items(pages):
        for name in ("name", "description"):
            item[name] = item[name].encode().decode(wrong, "replace")
    return pages


# By kind; those of MISSING leave no trace in what is there, so they show only at the end.
FAULTS: dict[str, Fault] = {
    "field gone": field_gone,
    "half of each page": half_of_each_page,
    "half of the pages": half_of_the_pages,
    "all prices 0": prices_zero,
    "section gone": section_gone,
    "another language": other_language,
    "captcha pages as items": captcha,
    "encoding broken": broken_encoding,
}
MISSING = ("half of the pages", "section gone")


def _items(pages: list[SimulatedPage]) -> list[dict[str, Any]]:
    return [item for page in pages for item in page.items]
