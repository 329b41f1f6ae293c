"""Request: its checks, its identity and its record."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from crawlframe.errors import BadRequest
from crawlframe.request.request import (
    MAX_RECORD,
    ROOT_CALLBACK,
    ROOT_URL,
    Request,
    make_rid,
    pack_admissions,
    rank_of,
    root_admission,
    unpack_admissions,
)
from crawlframe.spider.spider import Spider

URL = "http://example.com/"


class Example(Spider):
    name = "example"

    def parse_page(self, response: Any) -> None:
        """A callback."""


def test_a_plain_request_is_one_without_options() -> None:
    plain, made = Request.plain(URL, Example().parse_page), Request(URL, Example().parse_page)
    for name in Request.__slots__:
        assert getattr(plain, name) == getattr(made, name), name
    plain.headers["A"] = "b"
    assert Request.plain(URL).headers == {}


def test_callbacks_are_kept_by_name() -> None:
    spider = Example()
    request = Request(URL, spider.parse_page, errback="failed")
    assert (request.callback, request.errback) == ("parse_page", "failed")
    assert Request(URL).callback is None
    assert Request(URL, "").callback is None


def free_function(response: Any) -> None:
    """No method."""


@pytest.mark.parametrize("callback", [lambda response: None, free_function, 5, Example])
def test_callbacks_of_other_processes_cannot_be_functions(callback: Any) -> None:
    with pytest.raises(BadRequest, match="callback must be a method"):
        Request(URL, callback)
    with pytest.raises(BadRequest, match="errback must be a method"):
        Request(URL, errback=callback)


def test_payloads() -> None:
    request = Request(URL, json={"a": [1, "ü"]})
    assert (request.method, request.body) == ("POST", '{"a":[1,"ü"]}'.encode())
    assert request.headers == {"Content-Type": "application/json"}
    request = Request(URL, form={"a": ["1", "2"], "b": "ü"}, method="put")
    assert (request.method, request.body) == ("PUT", b"a=1&a=2&b=%C3%BC")
    assert request.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    assert Request(URL, method="POST", body="ü").body == "ü".encode()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"url": "page.html"}, "page.html"),
        ({"json": 1, "body": b"x"}, "only one of"),
        ({"json": 1, "form": {"a": "1"}}, "only one of"),
        ({"json": object()}, "json"),
        ({"priority": "high"}, "priority"),
        ({"downloader": "wget"}, "wget"),
        ({"headers": {"X-A": 1}}, "X-A"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "X-A"),
        ({"headers": {"X-A": "1\0"}}, "X-A"),
        ({"headers": {"X A": "1"}}, "X A"),
        ({"headers": {"X-A:": "1"}}, "X-A:"),
        ({"headers": {"": "1"}}, "headers"),
        ({"headers": {"Ü": "1"}}, "Ü"),
        ({"cookies": {"a": 1}}, "cookies"),
        ({"cookies": {"a": "1; b=2"}}, "cookies"),
        ({"cookies": {"a=b": "1"}}, "a=b"),
        ({"method": "GET / HTTP/1.1\r\nX-A: 1"}, "HTTP method"),
        ({"method": ""}, "HTTP method"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(**{"url": URL, **fields})
    assert named in str(caught.value)


def test_odd_cookie_names_are_allowed() -> None:
    assert Request(URL, cookies={"a[b]": "x y"}).cookies == {"a[b]": "x y"}


FULL: dict[str, Any] = {
    "url": "http://example.com/a?b=1",
    "callback": "parse_page",
    "method": "PUT",
    "headers": {"X-A": "ü"},
    "body": b"\0\xff",
    "cookies": {"c": "1"},
    "cb_kwargs": {"n": [1, None, True, 1.5, b"x", {"d": "ü"}]},
    "meta": {"m": 1},
    "priority": -3,
    "dont_filter": True,
    "errback": "failed",
    "downloader": "requests",
    "depth": 7,
}


def test_record_keeps_everything() -> None:
    decoded = Request.decode(Request(**FULL).encode())
    assert {name: getattr(decoded, name) for name in FULL} == FULL
    plain = Request.decode(Request(URL).encode())
    assert (plain.url, plain.callback, plain.method, plain.meta, plain.body) == (
        URL, None, "GET", {}, None,
    )  # fmt: skip


def test_plain_record_is_small() -> None:
    assert len(Request(URL, "parse_page").encode()) <= len(URL) + len("parse_page") + 6


def test_record_has_a_limit() -> None:
    with pytest.raises(BadRequest, match="keep the data elsewhere"):
        Request(URL, meta={"a": "x" * MAX_RECORD}).encode()


@pytest.mark.parametrize(
    "record", [b"", b"\xc1", b"junk", msgpack.packb([99, URL, "", 0]), msgpack.packb([1, 2])]
)
def test_unreadable_records(record: bytes) -> None:
    with pytest.raises(BadRequest, match="queued request"):
        Request.decode(record)


def test_replace() -> None:
    request = Request(**FULL)
    copy = request.replace(url="http://other.org/", priority=1)
    assert (copy.url, copy.priority) == ("http://other.org/", 1)
    same = {name: value for name, value in FULL.items() if name not in ("url", "priority")}
    assert {name: getattr(copy, name) for name in same} == same
    assert copy.headers is not request.headers


def test_requests_are_equal_that_do_the_same() -> None:
    spider = Example()
    same = Request(URL, "parse_page", json={"a": 1}, cb_kwargs={"n": (1, 2)}, delay=2)
    assert same == Request(
        URL, spider.parse_page, method="POST", body=b'{"a":1}', delay=2.0, depth=3,
        headers={"Content-Type": "application/json"}, cb_kwargs={"n": (1, 2)},
    )  # fmt: skip
    assert Request(URL) == Request("HTTP://EXAMPLE.com", "parse", body=b"") == Request.plain(URL)
    assert Request(URL, handle=[404, range(400, 404)]) == Request(URL, handle=[range(400, 405)])
    assert [Request(URL)] != [URL]
    with pytest.raises(TypeError, match="unhashable"):
        hash(same)


def test_requests_differ_in_all_that_is_sent_and_run() -> None:
    different = [
        Request(URL),
        Request(f"{URL}a"),
        Request(URL, "other"),
        *(Request(URL, **options) for options in (
            {"method": "POST"}, {"headers": {"A": "1"}}, {"body": b"x"}, {"cookies": {"a": "1"}},
            {"cb_kwargs": {"n": 1}}, {"meta": {"n": 1}}, {"priority": 1}, {"dont_filter": True},
            {"errback": "other"}, {"delay": 1}, {"downloader": "requests"}, {"timeout": 1},
            {"retries": 0}, {"redirects": 0}, {"handle": [404]}, {"session": "a"}, {"max_body": 1},
        )),
    ]  # fmt: skip
    assert [n for n, request in enumerate(different) if request in different[:n]] == []
    assert all(Request.decode(one.encode()) == one for one in different if not one.delay)


def test_the_repr_makes_an_equal_request() -> None:
    request = Request(
        URL, "page", form={"q": "a"}, meta={"n": 1}, retries=0, handle=[404, 410], priority=2,
        errback="failed", depth=4,
    )  # fmt: skip
    assert eval(repr(request)) == request
    assert repr(Request(URL)) == repr(Request(URL, "parse", depth=1)) == f"Request({URL!r})"
    assert repr(Request(URL, "page", delay=1)) == f"Request({URL!r}, 'page', delay=1)"


def test_fingerprint_tells_requests_apart() -> None:
    def of(url: str = URL, **fields: Any) -> bytes:
        return Request(url, **fields).fingerprint()

    assert of("http://example.com/?b=1&a=2#x") == of("http://EXAMPLE.com:80/?a=2&b=1")
    assert of(headers={"X-A": "1"}) == of()
    assert of(method="POST") == of(method="POST", body=b"")
    assert len({of(), of(method="HEAD"), of(method="POST"), of(method="POST", body=b"x"),
                of(method="PUT", body=b"x"), of(body=b"x"), of("http://example.com/?a"),
                of("https://example.com/")}) == 8  # fmt: skip


def test_escapes_do_not_make_requests_different() -> None:
    """RFC 3986, 6.2.2; the sent URL stays as it was written."""
    same = [Request(f"http://h/{path}?q=%{digits}") for path, digits in
            (("%7Eme", "c3"), ("~me", "C3"), ("%7e%6De", "%C3"[1:]))]  # fmt: skip
    assert len({request.fingerprint() for request in same}) == 1
    assert len({request.url for request in same}) == 3


def test_rid_is_of_task_and_fingerprint() -> None:
    rid = make_rid(1, b"http://h/")
    assert len(rid) == 16
    assert rid == make_rid(1, b"http://h/")
    assert len({rid, make_rid(2, b"http://h/"), make_rid(1, b"http://h/1")}) == 3
    assert make_rid(1, b"1\0x") != make_rid(11, b"\0x")


def test_rank_orders_by_task_then_priority_then_depth() -> None:
    order = [
        rank_of(0, 100, 0),
        rank_of(1000, 1, 9),
        rank_of(1000, 0, 4000),
        rank_of(1, 0, 0),
        rank_of(0, 0, 0),
        rank_of(0, 0, 1),
        rank_of(0, 0, 4095),
        rank_of(-1, 0, 0),
        rank_of(1000, -1, 0),
    ]
    assert order == sorted(order)
    assert len(set(order)) == len(order)
    assert rank_of(99999, 0, 0) == rank_of(1000, 0, 0)
    assert rank_of(0, 0, 99999) == rank_of(0, 0, 4095)
    assert min(order) >= 0
    assert rank_of(-1000, -100, 4095) < 2**53  # exact as a score of a sorted set


def test_root_and_admissions() -> None:
    root = root_admission(7, priority=3)
    request = Request.decode(root.record)
    assert (request.url, request.callback) == (ROOT_URL, ROOT_CALLBACK)
    assert root == root_admission(7, priority=3)
    assert root.rid != root_admission(8).rid
    assert unpack_admissions(pack_admissions([root, root])) == [root, root]
    assert unpack_admissions(pack_admissions([])) == []


def test_a_fragment_belongs_to_what_a_browser_fetches() -> None:
    one, two = (Request(f"{URL}#/topic/{n}", downloader="browser") for n in (1, 2))
    assert len({one.fingerprint(), two.fingerprint(), Request(URL).fingerprint()}) == 3
    assert one != two
    again = Request.decode(one.encode())
    assert (again, again.url, again.fragment) == (one, one.url, "#/topic/1")
    changed = one.replace(priority=1)
    assert (changed.fragment, one.replace(url=URL).fragment) == ("#/topic/1", "")
    assert eval(repr(changed), {"Request": Request}) == changed
    plain = Request(f"{URL}#/topic/1")
    assert plain == Request(URL)
    assert plain.encode() == Request(URL).encode()
    assert Request.decode(plain.encode()).fragment == ""
