"""Typed items: yielded items are checked against the class that the spider names, and coerced."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import attrs
import msgspec
import pydantic
import pytest
from itemadapter import ItemAdapter

from crawlframe import DropItem, Spider
from crawlframe.errors import SpiderError
from crawlframe.items import encode
from crawlframe.items.encode import encode_item, uses_item_classes
from crawlframe.items.item_type import ItemType
from crawlframe.run.outcome import Verdict
from crawlframe.spider.spider import describe
from crawlframe.testing import make_response, make_summary, run
from tests.node.runner import Runs, items, registry_of


@dataclasses.dataclass
class Room:
    size: float


@dataclasses.dataclass
class House:
    title: str
    price: Decimal
    rooms: list[Room] = dataclasses.field(default_factory=list)
    sold: date | None = None


@attrs.frozen
class Flat:
    title: str
    price: Decimal
    rooms: list[Room] = attrs.field(factory=list)
    sold: date | None = None


class Barn(msgspec.Struct, frozen=True):
    title: str
    price: Decimal
    rooms: list[Room] = []
    sold: date | None = None


class Villa(pydantic.BaseModel):
    title: str
    price: Decimal
    rooms: list[Room] = []
    sold: date | None = None


KINDS = [House, Flat, Barn, Villa]
RIGHT = {"title": "A", "price": "1.50", "rooms": [{"size": "12.5"}], "sold": "2026-01-31"}


def checked(kind: Any, item: Any) -> Any:
    return ItemType(kind).process_item(item, None)


def refusal(kind: Any, item: Any) -> str:
    with pytest.raises(DropItem) as dropped:
        checked(kind, item)
    return dropped.value.reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_dict_becomes_an_object_of_the_class_with_its_types(kind: Any) -> None:
    item = checked(kind, RIGHT)
    assert item == kind(
        title="A", price=Decimal("1.50"), rooms=[Room(size=12.5)], sold=date(2026, 1, 31)
    )
    assert type(item.rooms[0].size) is float
    assert checked(kind, {"title": "A", "price": 2}) == kind(title="A", price=Decimal(2))


@pytest.mark.parametrize("kind", [House, Flat, Barn])
def test_an_object_is_checked_too_and_stays_as_it_is(kind: Any) -> None:
    made = kind(title="A", price="2.5", rooms=[Room(size="3")])  # type: ignore[arg-type]
    assert checked(kind, made) == kind(title="A", price=Decimal("2.5"), rooms=[Room(3.0)])
    assert made.price == "2.5"
    assert refusal(kind, kind(title=None, price=1)).startswith("title: Expected str, got null")


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_another_class_is_read_by_its_fields(kind: Any) -> None:
    other = Barn if kind is House else House
    item = checked(kind, other("A", "2.5", [Room(3)]))  # type: ignore[arg-type]
    assert item == kind(title="A", price=Decimal("2.5"), rooms=[Room(3.0)])


@pytest.mark.parametrize("kind", [House, Flat, Barn])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"title": 5}, "title: Expected str, got int"),
        ({"price": "€ 5"}, "price: Invalid decimal string"),
        ({"rooms": [{"size": 1}, {"size": "big"}]}, "rooms[].size: Expected float, got str"),
        ({"rooms": [{}]}, "rooms[].size: is missing"),
        ({"sold": "tomorrow"}, "sold: Invalid RFC3339"),
        ({"colour": "red"}, "colour: is no field of the class"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(
    kind: Any, change: dict[str, Any], reason: str
) -> None:
    assert refusal(kind, RIGHT | change).startswith(reason)


@pytest.mark.parametrize("kind", [House, Flat, Barn])
def test_a_field_that_is_missing_is_named(kind: Any) -> None:
    assert refusal(kind, {"title": "A"}) == "price: is missing"


def test_pydantic_names_the_field_in_its_own_words() -> None:
    assert refusal(Villa, {"title": "A"}) == "price: Field required"
    assert refusal(Villa, RIGHT | {"rooms": [{"size": "x"}]}).startswith(
        "rooms[].size: Input should be a valid number"
    )
    made = Villa(title="A", price=Decimal(1))
    assert checked(Villa, made) is made


def test_the_constructor_and_what_the_author_wrote_there_run() -> None:
    @attrs.define
    class Priced:
        price: int = attrs.field(converter=lambda text: text if text == "?" else int(text[1:]))
        limit: int = attrs.field(default=3, validator=attrs.validators.gt(2))

    assert checked(Priced, {"price": "€5"}) == Priced("€5")
    assert refusal(Priced, {"price": "€x"}).startswith("Priced: ValueError: invalid literal")
    assert refusal(Priced, {"price": "€5", "limit": "1"}).startswith("Priced: ValueError: 'limit'")
    assert refusal(Priced, {"price": "?"}) == "price: Expected int, got str"

    @dataclasses.dataclass
    class Total:
        parts: list[int]
        total: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.total = sum(self.parts)

    assert checked(Total, {"parts": ["1", 2]}).total == 3
    assert refusal(Total, {"parts": [], "total": 1}) == "total: is no field of the class"


def test_limits_in_the_types_hold() -> None:
    @dataclasses.dataclass
    class Limited:
        n: Annotated[int, msgspec.Meta(ge=0)]
        side: Literal["left", "right"] = "left"
        villa: Villa | None = None

    assert refusal(Limited, {"n": -1}) == "n: Expected int >= 0"
    assert refusal(Limited, {"n": 1, "side": "up"}) == "side: Invalid enum value"
    assert checked(Limited, {"n": 1, "villa": {"title": "A", "price": 1}}).villa == Villa(
        title="A", price=Decimal(1)
    )


def test_a_struct_is_an_item() -> None:
    barn = Barn("A", Decimal(1), [Room(2.0)], date(2026, 1, 2))
    assert msgspec.json.decode(encode_item(barn)) == {
        "title": "A", "price": "1", "rooms": [{"size": 2.0}], "sold": "2026-01-02"
    }  # fmt: skip
    assert encode_item({"barn": Barn("A", Decimal(1))}).startswith(b'{"barn":{"title":"A"')

    class Shed(msgspec.Struct):
        n: int
        gone: int | msgspec.UnsetType = msgspec.UNSET

    shed = Shed(1)
    adapter = ItemAdapter(shed)
    adapter["n"] = 3
    del adapter["gone"]
    assert (shed.n, adapter.asdict(), len(adapter)) == (3, {"n": 3}, 1)
    assert ItemAdapter.get_field_names_from_class(Shed) == ["n", "gone"]
    with pytest.raises(KeyError):
        adapter["m"] = 1


# -- on a spider ----------------------------------------------------------------------------------


class Houses(Spider):
    name = "houses"
    item = House

    def parse(self, response: Any) -> Any:
        for price in response.css("b::text").getall():
            yield {"title": "A", "price": price}
        yield House("B", "9")  # type: ignore[arg-type]

    def closed(self, summary: Any) -> Any:
        yield {"title": summary.reason, "price": 1}


PAGE = make_response(html="<b>1</b><b>x</b><b>2</b><b>y</b>")


@pytest.mark.parametrize("pipelines", [True, False])
def test_a_wrong_item_is_counted_and_the_page_goes_on(pipelines: bool) -> None:
    result = run(Houses, PAGE, pipelines=pipelines)
    assert [item["price"] for item in result.items] == ["1", "2", "9"]
    assert result.dropped == {"price: Invalid decimal string": 2}
    assert run(Houses, make_summary(reason="done")).items[0]["title"] == "done"


def test_pipelines_get_objects_of_the_class() -> None:
    def doubled(item: House, response: Any) -> Any:
        item.price *= 2
        return item

    class Doubled(Houses):
        pipelines = [doubled]

    assert [item["price"] for item in run(Doubled, PAGE).items] == ["2", "4", "18"]


def test_a_wrong_item_is_logged_once_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
from __future__ import annotations
from dataclasses import dataclass
from decimal import Decimal
from crawlframe import Spider

@dataclass
class House:
    price: Decimal

class Shop(Spider):
    name = "shop"
    item = House
    def parse(self, response):
        yield {"price": "x"}
        yield {"price": "y"}
        yield {"price": "3"}
"""
    worker = Runs(registry_of(tmp_path, source))
    with caplog.at_level(logging.WARNING, "spider.shop"):
        outcome = asyncio.run(worker.page())
    assert (outcome.verdict, items(outcome)) == (Verdict.DONE, [{"price": "3"}])
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"dropped/price: Invalid decimal string": 2}
    assert caplog.messages == [
        "task 7 http://shop.example/a: dropped, like all that follow for price: Invalid decimal "
        "string: {'price': 'x'}"
    ]


def test_what_is_no_item_stays_an_error_of_the_callback() -> None:
    class Wrong(Spider):
        name = "wrong"
        item = House

        def parse(self, response: Any) -> Any:
            yield "text"

    with pytest.raises(SpiderError, match="yielded str 'text'"):
        run(Wrong, PAGE)


class NoFields:
    pass


@dataclasses.dataclass
class Unknown:
    house: Huose  # type: ignore[name-defined]  # noqa: F821


@dataclasses.dataclass
class Either:
    one: House | Room


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("house", "item must be the class of the items, a dataclass"),
        (House("A", Decimal(1)), "item must be the class of the items"),
        (NoFields, "NoFields is none, or has no fields"),
        (dict, "dict is none"),
        (Unknown, "the types of Unknown cannot be checked: name 'Huose' is not defined"),
        (Either, "the types of Either cannot be checked: Type unions"),
    ],
)
def test_a_class_that_cannot_be_checked_is_refused_when_the_spider_is_loaded(
    declared: Any, words: str
) -> None:
    class Wrong(Houses):
        item = declared

    with pytest.raises(SpiderError, match=words):
        describe(Wrong)


def test_a_callback_may_have_the_name_and_an_argument_may_not() -> None:
    class Callback(Spider):
        name = "callback"

        def parse(self, response: Any) -> Any:
            yield response.follow("/a", self.item)

        def item(self, response: Any) -> Any:
            yield {"any": "thing"}

    describe(Callback)
    assert run(Callback, PAGE, "item").items == [{"any": "thing"}]

    class Argument(Houses):
        item: str = "x"  # type: ignore[misc,assignment]

    with pytest.raises(SpiderError, match="rename the argument"):
        describe(Argument)

    class Noted(Houses):
        item: ClassVar[Any] = Flat

    assert describe(Noted).arguments.get("properties", {}) == {}


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("class House: pass", False),
        ("from crawlframe import Request, Spider\nfrom dataclasses import dataclass", False),
        ("class Meta(type):\n    def __getattribute__(cls, name): raise OSError\n"
         "class House(metaclass=Meta): pass", False),
        ("from dataclasses import dataclass\n@dataclass\nclass House:\n    rooms: int", True),
        ("import msgspec\nclass House(msgspec.Struct):\n    rooms: int", True),
    ],
)  # fmt: skip
def test_item_classes_of_imported_files_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, uses: bool
) -> None:
    monkeypatch.setattr(encode, "LIBRARIES", frozenset())  # pytest has imported them
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "housing.py"
    file.write_text(text)
    monkeypatch.delitem(sys.modules, "housing", raising=False)
    importlib.import_module("housing")
    try:
        assert uses_item_classes([str(file)]) is uses
        assert not uses_item_classes([str(tmp_path / "other.py")])
    finally:
        del sys.modules["housing"]
