"""Arguments: text becomes values, values are checked, and refusals name the argument and the
fix."""

from __future__ import annotations

import datetime
import enum
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest

from crawlframe import Response, SitemapSpider
from crawlframe.errors import ArgumentError
from crawlframe.spider.spider import Spider, SpiderInfo, build, describe
from crawlservice.tasks.arguments.spider_arguments import (
    MAX_SIZE,
    check,
    parse_pairs,
    problems,
    shortened,
    signature,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int


class Everything(Spider):
    name = "everything"

    url: Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})] = "https://a.example/"

    def start(
        self,
        city: str,
        count: int = 1,
        share: float = 0.5,
        deep: bool = False,
        pages: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1,
        maybe: int | None = None,
        word: str | None = None,
        either: int | str = 0,
        numbers: list[int] = [],  # noqa: B006
        pair: tuple[int, str] = (1, "a"),
        colour: Colour = Colour.RED,
        level: Level = Level.LOW,
        kind: Literal["x", "y", 3] = "x",
        point: Point | None = None,
        table: dict[str, int] = {},  # noqa: B006
        day: datetime.date | None = None,
        key: uuid.UUID | None = None,
    ) -> Any: ...


class Bare(Spider):
    name = "bare"


INFO: SpiderInfo = describe(Everything)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "-7", -7),
        ("share", "0.25", 0.25),
        ("share", "3", 3.0),
        ("deep", "yes", True),
        ("deep", "False", False),
        ("deep", "0", False),
        ("pages", "5", 5),
        ("maybe", "4", 4),
        ("maybe", "null", None),
        ("maybe", "", None),
        ("word", "", ""),
        ("word", "none", "none"),
        ("word", "null", None),
        ("either", "12", 12),
        ("either", "12a", "12a"),
        ("numbers", "1,2, 3", [1, 2, 3]),
        ("numbers", "[1, 2]", [1, 2]),
        ("numbers", "", []),
        ("pair", "4,b", [4, "b"]),
        ("colour", "blue", "blue"),
        ("level", "2", 2),
        ("kind", "y", "y"),
        ("kind", "3", 3),
        ("point", '{"x": 3}', {"x": 3}),
        ("table", '{"a": 1}', {"a": 1}),
        ("day", "2026-02-28", "2026-02-28"),
        ("key", "6f1fa5d5-5b6f-4b6b-9a41-6f3b1a8f0a11", "6f1fa5d5-5b6f-4b6b-9a41-6f3b1a8f0a11"),
        ("city", "a=b,c", "a=b,c"),
        ("url", "http://b.example/x", "http://b.example/x"),
    ],
)
def test_text_is_read_by_type_and_the_spider_takes_it(name: str, text: str, value: Any) -> None:
    checked = check(INFO, {"city": "Ulm", name: text}, from_text=True)
    assert checked[name] == value
    assert type(checked[name]) is type(value)
    build(Everything, checked)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("count", "seven", "a whole number"),
        ("count", "1.5", "a whole number"),
        ("share", "nan", "a number"),
        ("deep", "perhaps", "true or false"),
        ("pages", "6", "a whole number, at least 1, at most 5"),
        ("maybe", "x", "a whole number or null"),
        ("numbers", "1,b", "a list (a,b or JSON), each a whole number"),
        ("numbers", "[1,", "a list"),
        ("numbers", '["1"]', "a list"),
        ("pair", "1,b,c", "a list"),
        ("colour", "green", "one of blue, red"),
        ("level", "3", "one of 1, 2"),
        ("kind", "z", "one of"),
        ("point", "3", "a JSON object or null"),
        ("point", '{"y": 3}', "a JSON object or null"),
        ("day", "2026-02-30", "a date such as"),
        ("key", "6f1f", "a UUID"),
        ("url", "b.example", "a URL such as"),
    ],
)
def test_wrong_text_is_refused_by_name(name: str, text: str, wanted: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        check(INFO, {"city": "Ulm", name: text}, from_text=True)
    words = str(raised.value)
    assert f"argument {name!r} of spider 'everything'" in words
    assert repr(text) in words
    assert wanted in words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", "7"), ("count", True), ("count", None), ("share", "0.5"), ("deep", 1),
        ("deep", "true"), ("word", 3), ("numbers", "1,2"), ("numbers", [1, "2"]), ("day", 20260228),
        ("city", ["Ulm"]), ("level", "2"), ("table", {"a": "1"}),
    ],
)  # fmt: skip
def test_values_that_are_no_text_must_have_the_right_type(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"argument '{name}'"):
        check(INFO, {"city": "Ulm", name: value}, from_text=False)


def test_an_unknown_argument_lists_the_known_ones() -> None:
    with pytest.raises(ArgumentError) as raised:
        check(INFO, {"city": "Ulm", "cuont": "1"}, from_text=True)
    assert "no argument 'cuont' (did you mean 'count'?)" in str(raised.value)
    assert "its arguments: url, city, count, share" in str(raised.value)
    with pytest.raises(ArgumentError, match="'x'; it has none"):
        check(describe(Bare), {"x": "1"}, from_text=True)


def test_a_missing_argument_is_named_with_its_type() -> None:
    with pytest.raises(ArgumentError, match="needs the argument 'city': text"):
        check(INFO, {}, from_text=True)


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b"])
def test_text_that_no_database_takes_is_refused(value: str) -> None:
    for given, from_text in ((value, True), (value, False)):
        with pytest.raises(ArgumentError, match=r"argument 'city' .* cannot be stored"):
            check(INFO, {"city": given}, from_text=from_text)
    with pytest.raises(ArgumentError, match=r"argument 'table' .* cannot be stored"):
        check(INFO, {"city": "Ulm", "table": {value: 1}}, from_text=False)


def test_not_a_number_is_refused_where_text_is_not_read() -> None:
    with pytest.raises(ArgumentError, match=r"argument 'share' .* cannot be stored"):
        check(INFO, {"city": "Ulm", "share": float("inf")}, from_text=False)


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert parse_pairs(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(ArgumentError):
            parse_pairs(wrong)


def test_the_signature_tells_types_defaults_and_what_is_required() -> None:
    lines = signature(INFO)
    assert "city: text (required)" in lines
    assert "pages: a whole number, at least 1, at most 5 = 1" in lines
    assert 'colour: one of blue, red = "red"' in lines


def test_a_pattern_with_a_description_is_told_in_words() -> None:
    class Furniture(SitemapSpider):
        name = "furniture"
        sitemap_urls = ("https://shop.example/robots.txt",)

        def parse(self, response: Response) -> None: ...

    words = "text, a date such as 2026-11-20, or an age such as 7d"
    assert signature(describe(Furniture)) == [f'since: {words} = ""']
    with pytest.raises(ArgumentError, match=f"'yesterday' is not accepted; give {words}"):
        check(describe(Furniture), {"since": "yesterday"}, from_text=True)


def test_more_than_64_kib_of_arguments_are_refused() -> None:
    info = describe(Everything)
    fits = {"city": "x" * (MAX_SIZE - len('{"city": ""}'))}
    assert check(info, fits, from_text=False)["city"] == fits["city"]
    for from_text in (False, True):
        with pytest.raises(ArgumentError, match="at most 65,536"):
            check(info, {"city": fits["city"] + "x"}, from_text=from_text)
    with pytest.raises(ArgumentError, match="65,537"):
        check(info, {"city": fits["city"][:-1] + "ü"}, from_text=False)
    both = {"city": "x" * 40_000, "word": "y" * 30_000}
    assert list(problems(info, both, from_text=False)) == ["city"]
    assert problems(info, fits, from_text=False) == {}


def test_long_arguments_are_cut_for_lists() -> None:
    short = {"city": "x" * 500, "numbers": [1, 2]}
    assert shortened(short) == short
    cut = shortened({"numbers": list(range(1000)), "city": "Ulm", "word": "y" * 9000})
    assert cut["city"] == "Ulm"
    assert cut["word"] == "y" * 199 + "…"
    assert cut["numbers"].startswith("[0, 1, 2")
    assert len(shortened({f"{n:04}" * 200: n for n in range(100)})) == 20
