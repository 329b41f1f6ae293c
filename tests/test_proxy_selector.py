"""The choice of a proxy: its spelling, and where it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe import Request, Spider
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.frontier.client.records import kept_in, whole
from crawlframe.proxies.place import host_in, limited_at, place_of, route_in, route_of
from crawlframe.proxies.selector import ProxyPool, matches, parse_selector
from crawlframe.spider.spider import describe, read_settings
from crawlframe.spider.task_settings import overridden

URL = "https://example.com/"
BAD = [
    "", "pools", "pool:", "pool:EU", "pool:a b", "pool:country=DEU", "pool:tier=x", "pool:tier=999",
    "pool:tier=1,tier=2", "pool:speed=1", "ftp://a:1", "http://a", "http://a:0", "http://a:99999",
    "http://a:1/path", "http://a:1?q", "http://u:p@a:1", "socks4://a:1", 5, ["pool"], "a|b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (None, "direct"),
        ("direct", "direct"),
        ("pool", "pool"),
        ("pool:b,a,b", "pool:a,b"),
        ("pool:tier=01,eu,country=de", "pool:country=DE,eu,tier=1"),
        (ProxyPool(), "pool"),
        (ProxyPool(("b", "a"), tier=0, country="fr"), "pool:a,b,country=FR,tier=0"),
        ("http://Proxy.Example:3128/", "http://proxy.example:3128"),
        ("socks5h://[::1]:1080", "socks5h://[::1]:1080"),
    ],
)
def test_one_spelling(given: Any, choice: str) -> None:
    assert parse_selector(given) == choice
    assert parse_selector(choice) == choice


@pytest.mark.parametrize("given", BAD)
def test_other_values_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"must|not|has|twice"):
        parse_selector(given)


@pytest.mark.parametrize("given", ["pools", 5])
def test_requests_and_spiders_refuse_them_by_name(given: Any) -> None:
    with pytest.raises(BadRequest, match=r"example\.com.*proxy"):
        Request(URL, proxy=given)
    for part in ({"settings": {"proxy": given}}, {"proxy": given}):
        with pytest.raises(SpiderError, match="proxy"):
            read_settings(type("Bad", (Spider,), {"name": "bad", **part}))


def test_credentials_in_a_url_are_refused_and_not_shown() -> None:
    with pytest.raises(BadRequest, match="import the proxy into the pool") as caught:
        Request(URL, proxy="http://user:sesame@a.example:1")
    assert "sesame" not in str(caught.value)


def test_it_travels_with_the_request() -> None:
    for given, kept in (
        (None, "direct"),
        ("pool:eu", "pool:eu"),
        (ProxyPool(tier=2), "pool:tier=2"),
    ):
        request = Request.decode(Request(URL, proxy=given).encode())
        assert request.options.proxy == kept
        assert request.replace(priority=3).options.proxy == kept
    plain = Request(URL)
    assert plain.options.proxy is None
    assert plain.replace(priority=1).options.proxy is None
    assert Request(URL, proxy="pool").replace(proxy="").options.proxy is None


def test_settings_have_one_spelling() -> None:
    kind = type("A", (Spider,), {"name": "a", "settings": {"proxy": ProxyPool(("b", "a"))}})
    assert read_settings(kind).proxy == "pool:a,b"
    assert overridden(read_settings(kind), {"proxy": "direct"}).proxy == "direct"


def test_limits_of_addresses_do_not_fit() -> None:
    kind = type("A", (Spider,), {"name": "a", "settings": {"proxy": "pool", "ip": {"delay": 1}}})
    with pytest.raises(SpiderError, match="not fit with a proxy"):
        read_settings(kind)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("pool", "pool"),
        ("pool:b,a", "pool:a,b"),
        (ProxyPool(("eu",), tier=1), "pool:eu,tier=1"),
        ("http://Proxy.Example:3128", "http://proxy.example:3128"),
        (None, "direct"),
    ],
)
def test_an_attribute_takes_what_a_request_takes(given: Any, kept: str) -> None:
    base = type("Base", (Spider,), {"name": "base", "settings": {"proxy": "pool:base"}})
    assert read_settings(type("A", (base,), {"name": "a", "proxy": given})).proxy == kept
    assert read_settings(type("B", (base,), {"name": "b"})).proxy == "pool:base"
    under = type("Under", (Spider,), {"name": "under", "proxy": given})
    own = {"name": "c", "settings": {"proxy": "pool:own"}}
    assert read_settings(type("C", (under,), own)).proxy == "pool:own"


def test_two_in_one_class_and_an_argument_of_this_name_are_refused() -> None:
    both = {"name": "a", "proxy": "pool", "settings": {"proxy": "pool"}}
    with pytest.raises(SpiderError, match="leave one of the two out"):
        read_settings(type("A", (Spider,), both))
    argument = {
        "name": "a",
        "__annotations__": {"proxy": str},
        "parse": lambda self, response: None,
    }
    with pytest.raises(SpiderError, match="rename the argument"):
        describe(type("A", (Spider,), argument))
    callback = {"name": "a", "proxy": lambda self, response: None}
    assert read_settings(type("A", (Spider,), callback)).proxy is None


def test_places() -> None:
    assert route_of("direct") == route_of("") == ""
    assert route_of("pool:eu", shared=True, session="7.a") == "all;pool:eu#7.a"
    assert route_of("http://p:1", shared=True, session="7.a") == "http://p:1"
    place = place_of("a.example:8080", "all;pool:eu#7.a")
    assert (host_in(place), route_in(place)) == ("a.example:8080", "all;pool:eu#7.a")
    assert place_of("a.example", "") == "a.example"
    assert limited_at("a.example", "pool:eu#7.a", 5) == "a.example|5"
    assert limited_at("a.example", "all;pool", 5) == "a.example|all;pool"
    assert limited_at("a.example", "", 0) == "a.example"


def test_redis_keeps_records_of_a_place_as_short_as_others() -> None:
    record = Request(f"{URL}{'a' * 40}", callback="parse").encode()
    place = place_of("example.com", "pool")
    kept = kept_in(record, place)
    assert kept == kept_in(record, "example.com")
    assert len(kept) < len(record)
    assert whole(kept, place) == record


def test_what_a_choice_allows() -> None:
    assert matches("pool", 3, "DE", ())
    assert matches("pool:country=DE,eu,tier=3", 3, "DE", ("eu", "fast"))
    for choice in ("pool:us", "pool:country=FR", "pool:tier=2"):
        assert not matches(choice, 3, "DE", ("eu", "fast"))
