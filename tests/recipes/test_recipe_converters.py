"""Converters of recipes."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.recipes.converters import CONVERTERS, convert, read

PAGE = "https://shop.example/a/"


def made(names: str, *values: Any) -> Any:
    return convert(read([names]), list(values), PAGE)[0]


@pytest.mark.parametrize(
    ("names", "value", "result"),
    [
        ("text", "  a \n b ", "a b"),
        ("strip", "  a \n b ", "a \n b"),
        ("lower", "ÄB", "äb"),
        ("upper", "äb", "ÄB"),
        ("int", "1,234 reviews", 1234),
        ("int", "12.5", 12),
        ("int", "-7", -7),
        ("int", 3.9, 3),
        ("float", "4.5 out of 5", 4.5),
        ("float", "1,234.5 km", 1234.5),
        ("float", "Page 12 34", 12.0),
        ("price", "1.234,50 €", 1234.5),
        ("price", "$1,234.50", 1234.5),
        ("price", "1 234,56", 1234.56),
        ("price", "¥1,200", 1200.0),
        ("price", "1.234.567", 1234567.0),
        ("price", "19,9", 19.9),
        ("price", "0.125", 0.125),
        ("price", "£51.77", 51.77),
        ("price", "CHF 1'234.50", 1234.5),
        ("bool", "Yes", True),
        ("bool", "0", False),
        ("date", "2024-03-31T10:00:00+02:00", "2024-03-31"),
        ("date", "31 March 2024", "2024-03-31"),
        ("date", "March 31st, 2024", "2024-03-31"),
        ("date", "2024年3月31日", "2024-03-31"),
        ("date", "31.3.2024", "2024-03-31"),
        ("date", "Sun, 31 Mar 2024 10:00:00 +0200", "2024-03-31"),
        ("date:%m/%d/%Y", "03/31/2024", "2024-03-31"),
        ("datetime", "2024-03-31 10:00", "2024-03-31T10:00:00"),
        ("url", "../b?c#d", "https://shop.example/b?c"),
        ("json", '{"a": 1}', {"a": 1}),
        ("replace:a=>b", "banana", "bbnbnb"),
        ("split:, | last", "a, b, c", "c"),
    ],
)
def test_one_value(names: str, value: Any, result: Any) -> None:
    assert made(names, value) == result


@pytest.mark.parametrize(
    ("names", "result"),
    [
        ("int", 1),
        ("int | list", [1, 2, 1]),
        ("list | int", [1, 2, 1]),
        ("unique", ["1", "2"]),
        ("join:, ", "1, 2, 1"),
        ("join", "121"),
        ("count", 3),
        ("first | int", 1),
        ("last", "1"),
        ("join:+ | replace:1=>x", "x+2+x"),
    ],
)
def test_many_values(names: str, result: Any) -> None:
    assert made(names, "1", "2", "1") == result


def test_none() -> None:
    assert made("int") is None
    assert made("list") == []
    assert made("count") == 0


def test_what_cannot_be_converted_is_left_out_and_told() -> None:
    assert convert(read(["int | list"]), ["1", "x", "3"], PAGE) == ([1, 3], "not int")
    assert convert(read(["date"]), ["soon"], PAGE) == (None, "not date")
    assert convert(read(["int"]), ["9" * 30], PAGE) == (int("9" * 30), "")
    assert convert(read(["float"]), ["9" * 400], PAGE) == (None, "not float")
    assert convert(read(["price"]), ["9" * 400], PAGE) == (None, "not price")
    assert convert(read(["json"]), ["[" * 100_000], PAGE) == (None, "not json")
    assert str(convert(read(["json"]), ["NaN"], PAGE)[0]) == "nan"  # as Python reads it
    assert convert(read(["bool"]), ["perhaps"], PAGE) == (None, "not bool")
    assert convert(read(["url"]), ["mailto:a@b.example"], PAGE) == (None, "not url")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("prise", "did you mean 'price'"),
        ("split", "split needs a separator, such as split:,"),
        ("int:5", "int takes nothing after a colon; write int"),
        ("text | html", "html must be the first converter"),
    ],
)
def test_wrong_converters_are_refused(names: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read([names])


def test_objects_are_compared_by_what_is_in_them() -> None:
    objects = ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 1}']
    assert made("json | unique", *objects) == [{"a": 1, "b": 2}, {"a": 1}]
    many = [str(number) for number in range(100_000)]
    assert made("unique", *many, *many) == many  # in linear time


def test_a_bar_can_be_a_separator() -> None:
    assert made("split:| | list", "a|b") == ["a", "b"]


def test_every_converter_has_a_description() -> None:
    assert all(converter.told for converter in CONVERTERS.values())


def test_a_value_cannot_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    grow = read(["replace:a=>aaaaaaaaaa"] * 9)
    assert convert(grow, ["aa"], PAGE) == (None, "not replace")
    monkeypatch.setattr("crawlframe.recipes.converters.MAX_TEXT", 100)
    assert convert(grow[:1], ["a" * 10], PAGE) == ("a" * 100, "")
    assert convert(grow[:1], ["a" * 11], PAGE) == (None, "not replace")
    assert convert(read(["list", "replace:a=>aaaaaaaaaa"]), ["a" * 6, "a" * 6], PAGE) == (
        ["a" * 60],
        "not replace",
    )
    assert convert(read(["join:-----"]), ["x"] * 40, PAGE) == (None, "not join")
    assert convert(read(["join:-"]), ["x"] * 4, PAGE) == ("x-x-x-x", "")
