"""The fields of recorded items are declared by their spider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from crawlframe import Expect, Spider
from crawlframe.recorded.fields import has_fields, problems


@dataclass
class Book:
    title: str
    price: float | None = None


class Expecting(Spider):
    name = "expecting"
    expect = Expect(fields={"price": 0.5}, unique="sku")


class Typed(Spider):
    name = "typed"
    item: ClassVar[Any] = Book


def pages(*some: list[Any]) -> list[tuple[str, list[Any]]]:
    return [(f"https://a.example/{n}", found) for n, found in enumerate(some)]


def test_which_spiders_say_something() -> None:
    class Silent(Spider):
        name = "silent"
        expect = Expect(items=3)

    assert [has_fields(kind) for kind in (Expecting, Typed, Silent)] == [True, True, False]


@pytest.mark.parametrize(
    ("kind", "found", "lines"),
    [
        (Expecting, [{"price": 1, "sku": "a"}, {"price": None, "sku": "b"}], []),
        (
            Expecting,
            [{"price": 1}, {"price": ""}, {}, {"price": []}],
            ["price: 1 of 4 items have a value, 25%; at least 50% should; it lacks on "
             "https://a.example/0"],
        ),
        (Expecting, [{"price": 1, "sku": "a"}, {"price": 1, "sku": "a"}],
         ['sku: "a" occurs 2 times, and must be unique']),
        (Typed, [{"title": "x", "price": None}], []),
        (Typed, [{"title": ""}],
         ["title: 0 of 1 items have a value, 0%; at least 100% should; it lacks on "
          "https://a.example/0"]),
        (Typed, [], ["no recorded page leads to an item; record pages that do"]),
        (Expecting, [], ["no recorded page leads to an item; record pages that do"]),
    ],
)  # fmt: skip
def test_fields(kind: type[Spider], found: list[Any], lines: list[str]) -> None:
    assert problems(kind, pages(found)) == lines


def test_few_items_leave_room_for_one() -> None:
    class Nearly(Spider):
        name = "nearly"
        expect = Expect(fields={"price": 0.98})

    some = [{"price": 1}] * 20
    assert problems(Nearly, pages([*some, {}])) == []
    assert len(problems(Nearly, pages([*some, {}, {}]))) == 1


def test_items_that_do_not_fit_are_named() -> None:
    assert problems(
        Typed, pages([]), [("https://a.example/1", {"price: Expected `float`": 2})]
    ) == [
        "price: Expected `float`: 2 items do not fit the class of the items, on https://a.example/1"
    ]
