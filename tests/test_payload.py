"""cb_kwargs and meta come back unchanged, and a record cannot choose code to run."""

from __future__ import annotations

import enum
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import ModuleType
from typing import Any, ClassVar, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgpack
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.frontier.client.records import cut, whole
from crawlframe.request import payload, record
from crawlframe.request.request import Request

URL = "http://example.com/"


@dataclass
class House:
    price: Decimal
    rooms: tuple[int, ...] = ()
    seen: date = date(2026, 1, 2)
    made: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.made.append("made")


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int

    class Inner(NamedTuple):
        label: str = "a"


@attrs.frozen
class Street:
    name: str
    number: int = 1


@attrs.define
class Town:
    streets: list[Street]
    first: Street = attrs.Factory(lambda self: self.streets[0], takes_self=True)


class Offer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    title: str
    price: Decimal | None = None
    _note: str = pydantic.PrivateAttr(default="")


@pydantic.dataclasses.dataclass
class Checked:
    n: int


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    YES = "yes"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Text(str):
    """A subclass of str, such as BeautifulSoup's."""


def carried(value: Any) -> Any:
    request = Request.decode(Request(URL, cb_kwargs={"a": value}, meta={"b": [value]}).encode())
    assert request.meta == {"b": [request.cb_kwargs["a"]]}
    return request.cb_kwargs["a"]


VALUES = [
    {1: "a", None: 1, 1.5: 3, b"x": 4, (1, "b"): 5, date(2026, 1, 2): 6},
    (1, ("a", [2])),
    {1, "a"},
    frozenset({(1, 2)}),
    datetime(2026, 11, 22, 12, 30, 1, 5),
    datetime(2026, 11, 22, 12, 30, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    datetime(2026, 11, 22, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    date(1, 1, 1),
    time(12, 30, 1, 7),
    time(12, tzinfo=ZoneInfo("Asia/Shanghai")),
    timedelta(days=-1, microseconds=3),
    Decimal("1.10"),
    UUID(int=5),
    2**64,
    -(2**200),
    b"\0\xff",
    House(Decimal("1.10"), (1, 2)),
    Point(1, 2),
    Point.Inner("b"),
    Street("High Street"),
    Town([Street("a", 2), Street("b")]),
    Offer.model_validate({"title": "x", "price": "2.50", "more": (1, 2)}),
    Checked(3),
    Colour.RED,
    Word.YES,
    Access.READ | Access.WRITE,
    {"deep": [{"er": (House(Decimal(1)), {Point(1, 2): Colour.RED})}]},
]


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = carried(value)
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value) or isinstance(value, set)


def test_nothing_is_run_again() -> None:
    assert carried(House(Decimal(1))).made == ["made"]
    offer = Offer(title="x")
    offer._note = "private"
    back = carried(offer)
    assert (back._note, back.model_fields_set) == ("private", {"title"})


class Item(dict[str, Any]):
    """The part of Scrapy's Item that is used: fields on the class, values by key."""

    fields: ClassVar[dict[str, Any]] = {}


Item.__module__ = "scrapy.item"


class Article(Item):
    fields: ClassVar[dict[str, Any]] = {"title": {}, "tags": {}}


def test_items_of_scrapy_travel() -> None:
    back = carried(Article(tags=("a",)))
    assert (type(back), back) == (Article, {"tags": ("a",)})


class Leaving(BaseException):
    """An exception such as SystemExit."""


class Boom:
    """The next hash or item either does nothing, or raises this."""

    error: BaseException | None = None

    @classmethod
    def now(cls) -> None:
        if cls.error is not None:
            raise cls.error


@dataclass(frozen=True)
class Hashed:
    n: int = 1

    def __hash__(self) -> int:
        Boom.now()
        return self.n


class Picky(Item):
    fields: ClassVar[dict[str, Any]] = {"title": {}}

    def __init__(self, values: dict[str, Any]) -> None:
        Boom.now()
        super().__init__(values)


@pytest.mark.parametrize(
    "error", [AttributeError("gone"), RuntimeError("gone"), Leaving("gone")], ids=repr
)
@pytest.mark.parametrize(
    "value",
    [{Hashed()}, frozenset({Hashed()}), {Hashed(): 1}, Picky({"title": "x"})],
    ids=["set", "frozenset", "key", "item"],
)
def test_what_fails_here_may_work_with_other_code(
    monkeypatch: pytest.MonkeyPatch, value: Any, error: BaseException
) -> None:
    """The request is to be parked, as after an exception of a constructor."""
    encoded = Request(URL, meta={"a": value}).encode()
    assert Request.decode(encoded).meta == {"a": value}
    monkeypatch.setattr(Boom, "error", error)
    with pytest.raises(MissingCode, match=r"a value in cb_kwargs or meta.*gone"):
        Request.decode(encoded)


@pytest.mark.parametrize("error", [ValueError("gone"), TypeError("gone"), KeyError("gone")])
def test_an_item_that_refuses_its_values_is_no_junk(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    encoded = Request(URL, meta={"a": Picky({"title": "x"})}).encode()
    monkeypatch.setattr(Boom, "error", error)
    with pytest.raises(MissingCode, match=r"Picky cannot be made of a value.*gone"):
        Request.decode(encoded)


def test_subclasses_of_plain_types_travel_as_what_they_are() -> None:
    """Also in a record that older workers read."""
    encoded = Request(URL, meta={"a": Text("x"), "b": OrderedDict(c=1)}).encode()
    assert encoded[1] == record.PLAIN
    assert msgpack.unpackb(encoded)[4]["meta"] == {"a": "x", "b": {"c": 1}}
    assert type(carried(Text("x"))) is str


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("aü\n")
    | st.binary() | st.datetimes() | st.dates() | st.times() | st.timedeltas() | st.uuids()
    | st.decimals(allow_nan=False),
    lambda part: st.lists(part) | st.tuples(part, part) | st.dictionaries(st.text("ab"), part)
    | st.builds(Town, st.just([Street("a")]), part),
)  # fmt: skip


@given(anything)
def test_any_nesting_comes_back(value: Any) -> None:
    assert carried(value) == value


# -- records of other versions ---------------------------------------------------------------------


def test_plain_records_have_the_old_format() -> None:
    """Older and newer nodes work side by side as long as spiders use only types of msgpack."""
    request = Request(URL, "page", cb_kwargs={"n": [1, None, "x"]}, meta={"b": b"x"})
    fields = [1, URL, "page", 0, {"cb_kwargs": {"n": [1, None, "x"]}, "meta": {"b": b"x"}}]
    assert request.encode() == msgpack.packb(fields)
    assert Request.decode(msgpack.packb([1, URL, "page", 0])).callback == "page"


def test_records_with_more_are_of_another_version() -> None:
    """An older worker refuses it by its version, and calls no callback with half a value."""
    encoded = Request(URL, meta={"t": (1,)}).encode()
    assert msgpack.unpackb(encoded)[0] == record.TYPED == encoded[1]
    short = cut(encoded, b"://example.com")
    assert whole(short, "example.com") == encoded


def test_keys_that_an_earlier_version_wrote_are_read() -> None:
    before = msgpack.packb([1, URL, "", 0, {"cb_kwargs": {1: "a"}}])
    assert repr(Request.decode(before).cb_kwargs) == "{1: 'a'}"


def test_a_record_of_the_future_waits_for_its_code() -> None:
    with pytest.raises(MissingCode, match="record version 6; this code reads 1 to 5"):
        Request.decode(msgpack.packb([6, URL, "", 0]))
    unknown = msgpack.packb([2, URL, "", 0, {"meta": {"a": msgpack.ExtType(99, b"\xc0")}}])
    with pytest.raises(MissingCode, match="type 99, of a newer Crawlframe"):
        Request.decode(unknown)


def test_the_head_needs_no_class() -> None:
    request = Request(URL, "page", errback="failed", meta={"h": Street("a")}, depth=3)
    encoded = request.encode().replace(b"Street", b"Gone__")
    assert record.read_head(encoded) == (URL, 3, "page", "failed")
    assert record.read_head(Request(URL).encode()) == (URL, 0, "parse", "")


@pytest.mark.parametrize(
    "fields",
    [
        [1, URL, "parse", 0, 5],
        [1, URL, "parse", 0, [1]],
        [1, URL, ["parse"], 0],
        [1, URL, "parse", "deep"],
        [1, 7, "parse", 0],
        [1, URL, "parse", 0, {"errback": {"a": 1}}],
    ],
)
def test_the_head_of_what_is_no_record_is_refused(fields: list[object]) -> None:
    """The master reads heads, and must not crash on one."""
    with pytest.raises(BadRequest, match="a queued request cannot be read"):
        record.read_head(msgpack.packb(fields))


# -- classes that changed --------------------------------------------------------------------------


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the spiders; classes of it come and go, as by hot reload."""
    module = ModuleType("spiders_of_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def define(module: ModuleType, text: str) -> Any:
    exec("from dataclasses import dataclass, field\nimport enum, attrs, pydantic\n" + text,
         vars(module))  # fmt: skip
    return module.Thing


KINDS = {
    "dataclass": "@dataclass\nclass Thing:\n",
    "attrs": "@attrs.define\nclass Thing:\n",
    "pydantic": "class Thing(pydantic.BaseModel):\n",
    "namedtuple": "import typing\nclass Thing(typing.NamedTuple):\n",
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_field_that_came_has_its_default(code: ModuleType, kind: str) -> None:
    encoded = Request(URL, meta={"t": define(code, f"{kind}    a: int")(a=1)}).encode()
    define(code, f"{kind}    a: int\n    b: str = 'new'")
    back = Request.decode(encoded).meta["t"]
    assert (back.a, back.b) == (1, "new")
    define(code, f"{kind}    a: int\n    b: str")
    with pytest.raises(MissingCode, match=r"spiders_of_test\.Thing requires the field 'b'"):
        Request.decode(encoded)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_field_that_went_is_missed(code: ModuleType, kind: str) -> None:
    encoded = Request(URL, meta={"t": define(code, f"{kind}    a: int\n    b: int")(1, 2)
                                 if "pydantic" not in kind
                                 else define(code, f"{kind}    a: int\n    b: int")(a=1, b=2)}
                      ).encode()  # fmt: skip
    define(code, f"{kind}    a: int")
    with pytest.raises(MissingCode, match=r"spiders_of_test\.Thing has no field 'b'"):
        Request.decode(encoded)


def test_a_class_that_went_is_named(code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = define(code, KINDS["dataclass"] + "    a: int")(1)
    encoded = Request(URL, meta={"t": thing}).encode()
    del code.Thing
    with pytest.raises(MissingCode, match=r"class spiders_of_test\.Thing of a value .* missing"):
        Request.decode(encoded)
    monkeypatch.delitem(sys.modules, code.__name__)
    with pytest.raises(MissingCode, match=r"spiders_of_test\.Thing"):
        Request.decode(encoded)


def test_a_member_that_went_is_named(code: ModuleType) -> None:
    thing = define(code, "class Thing(enum.Enum):\n    A = 1")
    encoded = Request(URL, meta={"t": thing.A}).encode()
    define(code, "class Thing(enum.Enum):\n    B = 1")
    with pytest.raises(MissingCode, match=r"spiders_of_test\.Thing has no member 'A'"):
        Request.decode(encoded)


@pytest.mark.parametrize(
    "name",
    [("os", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("builtins", "dict"),
     ("crawlframe.code.source", "SourceFinder"), ("no.such.module", "Thing"), ("os", "path.join")],
)  # fmt: skip
def test_a_forged_record_gets_nothing_else(name: tuple[str, str]) -> None:
    for code, state in ((payload.INSTANCE, [{}]), (payload.ENUM, "x")):
        forged = msgpack.ExtType(code, msgpack.packb([*name, state]))
        with pytest.raises(MissingCode, match=name[1]):
            Request.decode(msgpack.packb([2, URL, "", 0, {"meta": {"a": forged}}]))


@pytest.mark.parametrize(
    "content", [(payload.DATE, b"\xa1x"), (payload.INSTANCE, b"\xc0"), (payload.DECIMAL, b"\xa1x"),
                (payload.TUPLE, b"\x01"), (payload.UUID_, b"\xc4\x01x"), (payload.SET, b"\xc1"),
                (payload.SET, b"\x91\x90")]
)  # fmt: skip
def test_torn_values_are_bad_requests(content: tuple[int, bytes]) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        Request.decode(msgpack.packb([2, URL, "", 0, {"meta": {"a": msgpack.ExtType(*content)}}]))


# -- types that cannot travel ----------------------------------------------------------------------


class Plain:
    """Neither a dataclass nor attrs."""


Nowhere = type("Elsewhere", (Point.Inner,), {})


def local() -> Any:
    @dataclass
    class Local:
        a: int = 1

    return Local()


@dataclass
class Ring:
    of: Any = None


def ring() -> Ring:
    one = Ring()
    one.of = [one]
    return one


def knot() -> Any:
    ends: list[Any] = []
    ends.append({"a": (ends,)})
    return ends


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1, Plain()]}, "cb_kwargs['k']['a'][1]: Plain cannot travel; these can: None"),
        (Request(URL), "cb_kwargs['k']: Request cannot travel"),
        ({Plain: 1}, "type cannot travel"),
        (print, "builtin_function_or_method cannot travel"),
        (iter([]), "list_iterator cannot travel"),
        (1j, "complex cannot travel"),
        (local(), "Local is not found under this name; define it at the top of a module"),
        (Nowhere(1), "Elsewhere is not found under this name"),
        (knot(), "contains itself"),
        (ring(), "cb_kwargs['k']: "),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_cannot_travel_is_named(value: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(URL, cb_kwargs={"ok": 1, "k": value}).encode()
    assert str(caught.value).startswith(f"request {URL}: ")
    assert words in str(caught.value)
