"""The options of one request: their checks, and their form in a record."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.frontier.client.records import cut, whole
from crawlframe.request import record
from crawlframe.request.options import NO_OPTIONS, Options
from crawlframe.request.request import Request

URL = "http://example.com/a"
ALL: dict[str, Any] = {
    "timeout": 2.5,
    "retries": 0,
    "redirects": 3,
    "handle": (range(404, 405), range(500, 600)),
    "session": "left-1",
    "max_body": 1000,
    "proxy": "pool:country=DE,eu",
}


def test_they_travel_with_the_request() -> None:
    decoded = Request.decode(Request(URL, **ALL, cb_kwargs={"typed": (1, 2)}).encode())
    assert decoded.options == Options(**ALL)
    assert decoded.cb_kwargs == {"typed": (1, 2)}


@pytest.mark.parametrize("name", ALL)
def test_each_alone_leaves_the_others_to_the_settings(name: str) -> None:
    decoded = Request.decode(Request(URL, **{name: ALL[name]}).encode())
    assert decoded.options == Options(**{name: ALL[name]})


def test_a_request_without_them_is_written_as_ever() -> None:
    encoded = Request(URL, timeout=None).encode()
    assert msgpack.unpackb(encoded) == [record.PLAIN, URL, "", 0]
    assert Request.decode(encoded).options is NO_OPTIONS


def test_code_that_knows_no_options_refuses_the_record() -> None:
    encoded = Request(URL, session="a").encode()
    assert msgpack.unpackb(encoded)[0] == record.OPTIONS > record.TYPED


@pytest.mark.parametrize("length", [1, 100, 1000])
def test_redis_keeps_the_record_whole(length: int) -> None:
    encoded = Request(URL * length, session="a").encode()
    assert whole(cut(encoded, b"example.com"), "example.com") == encoded


def test_an_option_of_a_newer_crawlframe_waits_for_it() -> None:
    newer = msgpack.packb([record.OPTIONS, URL, "", 0, {"options": {"colour": "x"}}])
    with pytest.raises(MissingCode, match="'colour'"):
        Request.decode(newer)


@pytest.mark.parametrize("options", [7, {"timeout": "x"}, {"handle": 5}, {"handle": [[1]]}])
def test_a_broken_record_is_named(options: Any) -> None:
    broken = msgpack.packb([record.OPTIONS, URL, "", 0, {"options": options}])
    with pytest.raises(BadRequest):
        Request.decode(broken)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"timeout": 0}, "timeout must be a number of seconds above 0"),
        ({"timeout": "5"}, "not '5'"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "up to 86400"),
        ({"retries": -1}, "retries must be an int from 0, not -1"),
        ({"retries": 1.5}, "retries"),
        ({"redirects": False}, "redirects must be an int from 0, not False"),
        ({"handle": 404}, "handle must be a list of HTTP statuses or ranges of them"),
        ({"handle": "404"}, "handle"),
        ({"handle": ["404"]}, "not '404'"),
        ({"handle": [range(0, 10)]}, "not range(0, 10)"),
        ({"handle": [1000]}, "not 1000"),
        ({"session": ""}, "session must be a name"),
        ({"session": "a|b"}, "not 'a|b'"),
        ({"session": "a/b"}, "session"),
        ({"session": 5}, "session"),
        ({"max_body": 0}, "max_body must be a number of bytes above 0"),
    ],
)
def test_wrong_values_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(URL, **given)
    assert f"request {URL}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("handle", "kept"),
    [
        ([404], (range(404, 405),)),
        ([405, 404, 404], (range(404, 406),)),
        (range(400, 600), (range(400, 600),)),
        ([range(500, 600), 404], (range(404, 405), range(500, 600))),
        ([], ()),
    ],
)
def test_statuses_are_kept_as_ranges(handle: Any, kept: Any) -> None:
    assert Request(URL, handle=handle).options.handle == kept


def test_which_statuses_are_handled() -> None:
    options = Request(URL, handle=[404, range(500, 600)]).options
    assert [options.handles(status) for status in (404, 500, 599, 403, 301)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert NO_OPTIONS.handles(404) is None
    unfollowed = Request(URL, redirects=0).options
    assert (unfollowed.handles(302), unfollowed.handles(404)) == (True, None)
    assert Request(URL, redirects=1).options.handles(302) is None


def test_replace_keeps_and_changes_them() -> None:
    request = Request(URL, **ALL)
    assert request.replace(priority=1).options == request.options
    changed = request.replace(timeout=9, session=None)
    assert changed.options == request.options._replace(timeout=9, session=None)


def test_a_word_nearly_right_is_named() -> None:
    with pytest.raises(BadRequest, match="did you mean 'timeout'"):
        Request(URL, timeuot=5)  # type: ignore[arg-type]
