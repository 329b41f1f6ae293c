"""The author's contract: arguments, settings and the publication of a spider."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from crawlframe import (
    CallNext,
    Middleware,
    Request,
    Response,
    SyncCallNext,
    SyncMiddleware,
)
from crawlframe.errors import ArgumentError, SpiderError
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, argument_type, build, describe, read_settings


class Kind(Enum):
    RENT = "rent"
    SALE = "sale"


class Listings(Spider):
    """Listings of a city.

    Second paragraph."""

    name = "listings"
    city: str
    pages: int = 3
    kinds: list[Kind] = []
    shared: ClassVar[int] = 5
    _private: int = 6

    def start(self, day: date | None = None, deep: bool = False) -> Any:
        yield Request(f"http://example.com/{self.city}")


def test_arguments_come_from_start_and_annotations() -> None:
    fields = {
        field.name: field.required for field in msgspec.structs.fields(argument_type(Listings))
    }
    assert fields == {"city": True, "pages": False, "kinds": False, "day": False, "deep": False}


def test_build_converts_text_as_commands_and_forms_give_it() -> None:
    given = {"city": "bj", "pages": "7", "kinds": ["rent"], "day": "2026-11-21", "deep": "true"}
    spider, start = build(Listings, given)
    assert isinstance(spider, Listings)
    assert (spider.city, spider.pages, spider.kinds) == ("bj", 7, [Kind.RENT])
    assert start == {"day": date(2026, 11, 21), "deep": True}


def test_defaults_and_their_independence() -> None:
    first, start = build(Listings, {"city": "bj"})
    second, _ = build(Listings, {"city": "sh"})
    assert isinstance(first, Listings)
    assert isinstance(second, Listings)
    assert (first.pages, start) == (3, {"day": None, "deep": False})
    first.kinds.append(Kind.SALE)
    assert second.kinds == []
    assert Listings.kinds == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "city"),
        ({"city": "bj", "page": 1}, "page"),
        ({"city": "bj", "pages": "many"}, "pages"),
        ({"city": "bj", "pages": 1.5}, "pages"),
        ({"city": None}, "city"),
        ({"city": "bj", "kinds": ["buy"]}, "kinds"),
        ({"city": "bj", "day": "yesterday"}, "day"),
        ({"city": "bj", "deep": "perhaps"}, "deep"),
        ({"city": "bj", "shared": 1}, "shared"),
        ({"city": "bj", "_private": 1}, "_private"),
        ({"city": "bj", "name": "other"}, "name"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match="listings") as caught:
        build(Listings, given)
    assert named in str(caught.value)


def test_subclass_adds_and_changes_arguments() -> None:
    class More(Listings):
        name = "more"
        pages: int = 9
        sort: Literal["new", "old"] = "new"

    spider, _ = build(More, {"city": "bj", "sort": "old"})
    assert isinstance(spider, More)
    assert (spider.city, spider.pages, spider.sort) == ("bj", 9, "old")
    with pytest.raises(ArgumentError, match="sort"):
        build(More, {"city": "bj", "sort": "best"})


def test_constraints() -> None:
    class Bound(Spider):
        name = "bound"

        def start(self, n: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1) -> Any:
            return []

    assert build(Bound, {"n": "5"})[1] == {"n": 5}
    with pytest.raises(ArgumentError, match="n must be a whole number, at least 1 and at most 5"):
        build(Bound, {"n": 6})


def test_untyped_parameters_are_text() -> None:
    class Plain(Spider):
        name = "plain"

        def start(self, word, *rest, other="x", **more):
            return []

    assert build(Plain, {"word": "w"})[1] == {"word": "w", "other": "x"}


def test_spider_without_arguments() -> None:
    class Simple(Spider):
        name = "simple"
        start_urls = ["http://example.com/a", "http://example.com/b"]

    spider, start = build(Simple, {})
    requests = list(spider.start(**start))
    assert [request.url for request in requests] == Simple.start_urls
    with pytest.raises(ArgumentError, match="start_urls"):
        build(Simple, {"start_urls": []})
    with pytest.raises(SpiderError, match=r"simple.*no parse method"):
        spider.parse(None)  # type: ignore[arg-type]


def test_hints_that_cannot_be_read_are_refused() -> None:
    class Broken(Spider):
        name = "broken"

        def start(self, n: Unknown = 1) -> Any:  # type: ignore[name-defined]  # noqa: F821
            return []

    with pytest.raises(SpiderError, match="Unknown"):
        describe(Broken)


def test_settings_go_over_those_of_base_classes() -> None:
    class Project(Spider):
        settings = {"delay": 3, "retries": 1}

    class Mixin(Spider):
        settings = {"timeout": 9}

    class Shop(Mixin, Project):
        name = "shop"
        settings = {"delay": 1}

    settings = read_settings(Shop)
    assert (settings.delay, settings.retries, settings.timeout) == (1, 1, 9)


@pytest.mark.parametrize("wrong", [None, "delay", [("delay", 1)]])
def test_settings_are_a_dict(wrong: Any) -> None:
    class Project(Spider):
        settings = wrong

    class Shop(Project):
        name = "shop"

    with pytest.raises(SpiderError, match="spider 'shop': settings must be a dict, not "):
        read_settings(Shop)


def test_settings_are_checked() -> None:
    class Tuned(Spider):
        name = "tuned"
        settings = {"delay": 0.5, "timeout": "5", "handle_statuses": [404], "headers": {"X-A": "1"}}

    settings = read_settings(Tuned)
    assert (settings.delay, settings.timeout, settings.handle_statuses) == (0.5, 5.0, (404,))
    assert settings.headers == {"X-A": "1"}
    assert read_settings(Listings) == SpiderSettings()
    # An older node would refuse an unknown setting.
    assert b"failed_share" not in msgspec.json.encode(settings)
    shared = type("Shared", (Tuned,), {"settings": {"reuse": 60, "ip": {"delay": 1}}})
    read = read_settings(type("Child", (shared,), {"settings": {"reuse": {"conditional": True}}}))
    assert (read.reuse.max_age, read.reuse.conditional, read.ip.delay) == (60, True, 1)
    assert (read.kept, settings.kept) == ("all", "sample")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"dealy": 1}, "dealy"),
        ({"delay": -1}, "delay"),
        ({"delay": "soon"}, "delay"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"max_body": 0}, "max_body"),
        ({"retries": -1}, "retries"),
        ({"failed_share": 50}, "failed_share"),
        ({"downloader": "wget"}, "wget"),
        ({"headers": {"X": 1}}, "headers"),
        ({"headers": {"X": "a\r\nY: b"}}, "headers['X'] has a line break"),
        ({"headers": {"X": "\ud800"}}, "headers['X'] has a line break or another character"),
        ({"headers": {"\xdcber": "a"}}, "'\xdcber' is not a valid name"),
        ({"user_agent": "a\nb"}, "User-Agent"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], named: str) -> None:
    wrong = type("Wrong", (Spider,), {"name": "wrong", "settings": settings})
    with pytest.raises(SpiderError, match="'wrong'") as caught:
        read_settings(wrong)
    assert named in str(caught.value)


def test_describe() -> None:
    info = describe(Listings)
    assert (info.name, info.module) == ("listings", __name__)
    assert info.doc == "Listings of a city.\n\nSecond paragraph."
    assert info.arguments["required"] == ["city"]
    assert info.arguments["properties"]["pages"] == {"type": "integer", "default": 3}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(info), type=type(info)) == info


class Thing:
    """A class that no argument can have."""


def takes(annotation: Any) -> Any:
    def start(self: Any, first: int = 1, a: Any = None) -> Any: ...

    start.__annotations__["a"] = annotation
    return start


def make_with_key(self: Any, key: str, *rest: Any, n: int = 1, **more: Any) -> None: ...


def make_alone(self: Any, key: str = "", *rest: Any, **more: Any) -> None:
    raise AssertionError("describe() makes no instance")


class Passing:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return await call_next(request)


class PassingInThread:
    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
        return call_next(request)


class Static:
    @staticmethod
    async def fetch(request: Request, call_next: CallNext) -> Response:
        return await call_next(request)


class Keyed(Passing):
    def __init__(self, key: str) -> None:
        pass


class Yielding:
    def fetch(self, request: Request, call_next: Any) -> Any:
        yield request


class Short:
    def fetch(self, request: Request) -> Any:
        pass


async def async_follow(self: Any, request: Request, response: Response | None) -> Any: ...


def yielding_follow(self: Any, request: Request, response: Response | None) -> Any:
    yield request


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"start_urls": "http://a.example/"}, "start_urls must be a list of URLs, such as ["),
        (
            {"allowed_domains": "example.com"},
            'allowed_domains must be a list of host names, such as ["example.com"]',
        ),
        (
            {"allowed_domains": ["ok.example", "http://example.com/"]},
            "allowed_domains: 'http://example.com/' is not a host name; write example.com",
        ),
        ({"allowed_domains": ("example.com:8080",)}, "is not a host name; write example.com"),
        ({"allowed_domains": {"example.com/shop"}}, "is not a host name; write example.com"),
        ({"allowed_domains": ["//"]}, "write one such as example.com"),
        ({"allowed_domains": ["[::1]:80"]}, "is not a host name"),
        ({"allowed_domains": [7]}, "7 is not text"),
        ({"start_requests": lambda self: []}, "that is Scrapy's name; call it start"),
        ({"custom_settings": {}}, "call it settings; `config show SPIDER` lists its keys"),
        ({"__init__": make_with_key}, "__init__ must work without arguments, and needs key;"),
        ({"start_urls": ["http://a.example/"]}, "go to the method parse; write one, or a start"),
        (
            {"start": takes(object)},
            "argument 'a': its type object cannot be checked; use int, float, bool, str, ",
        ),
        ({"start": takes(list[Thing])}, "argument 'a': its type list["),
        ({"start": takes(int | Thing)}, "argument 'a': its type "),
        ({"start": takes(list[int] | set[int])}, "argument 'a': its type list[int] | set[int] "),
        ({"middlewares": Passing}, "must be a list of objects or classes, the outermost"),
        ({"middlewares": {Passing: 543}}, "middlewares must be a list of objects or classes"),
        ({"middlewares": ["shop.Passing"]}, "'shop.Passing' is text; import the class"),
        ({"middlewares": [Thing]}, "Thing has no method fetch(self, request, call_next)"),
        ({"middlewares": [Keyed]}, "Keyed must work without arguments, or be listed as an object"),
        ({"middlewares": [Yielding]}, "Yielding.fetch must return a Response; it yields"),
        ({"middlewares": [Short]}, "Short.fetch must take request and call_next"),
        ({"middlewares": [Short()]}, "Short.fetch must take request and call_next"),
        ({"follow": lambda self, request: request}, "follow(self, request, response): too many"),
        ({"follow": True}, "follow is called with each request, as follow"),
        ({"follow": async_follow}, "it must be a plain method"),
        ({"follow": yielding_follow}, "it yields"),
        ({"is_blocked": lambda self: True}, "is_blocked(self, response): too many"),
        ({"is_blocked": True}, "is_blocked is called with each response"),
        ({"settings": {"min_delay": -1}}, "min_delay must be a number, at least 0"),
        ({"settings": {"delay": 1, "min_delay": 1}}, "leave one of the two out"),
    ],
)  # fmt: skip
def test_what_would_fail_only_in_the_crawl_is_refused(parts: dict[str, Any], words: str) -> None:
    wrong = type("Wrong", (Spider,), {"name": "wrong", **parts})
    with pytest.raises(SpiderError) as caught:
        describe(wrong)
    assert str(caught.value).startswith("spider 'wrong': ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        {"start_urls": ("http://a.example/",), "parse": lambda self, response: None},
        {"start_urls": ["http://a.example/"], "start": lambda self: []},
        {"start_urls": property(lambda self: ["http://a.example/"]), "start": lambda self: []},
        {"allowed_domains": ["example.com", "[::1]", "10.0.0.1"]},
        {"__init__": make_alone},
        {"start": takes(Literal["a"] | None)},
        {"middlewares": (Passing, Keyed("x"), Static, PassingInThread())},
        {"follow": lambda self, request, response=None: None},
    ],
)
def test_what_works_is_described(parts: dict[str, Any]) -> None:
    assert describe(type("Fine", (Spider,), {"name": "fine", **parts})).name == "fine"


def test_authors_types_fit_the_public_ones() -> None:
    class Typed(Spider):
        middlewares = [Passing, PassingInThread, Keyed("x")]

        def follow(self, request: Request, response: Response | None) -> Request | None:
            return super().follow(request, response)

    waiting: Middleware = Passing()
    plain: SyncMiddleware = PassingInThread()
    assert Typed.middlewares[:1] == [Passing]
    assert callable(waiting.fetch)
    assert callable(plain.fetch)


@pytest.mark.parametrize("workers", [2, 0, "1", -1])
def test_a_number_of_workers_that_is_none(workers: Any) -> None:
    kind = type("Counting", (Spider,), {"name": "counting", "workers": workers})
    with pytest.raises(SpiderError, match=r"workers is .*set it to 1"):
        describe(kind)


def test_one_worker_is_published() -> None:
    kind = type("Counting", (Spider,), {"name": "counting", "workers": 1})
    assert describe(kind).workers == 1
    assert describe(type("Any", (Spider,), {"name": "any"})).workers == 0
