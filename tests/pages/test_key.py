"""Requests have equal keys if their pages are the same for the server."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.pages.key import key_of
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings

URL = "http://a.example/?b=2&a=1"


def key(owner: str = "", url: str = URL, settings: Any = None, **options: Any) -> bytes:
    made = Request(url, **options)
    return key_of(made, SpiderSettings(**settings or {}), owner, made.downloader or "curl")


@pytest.mark.parametrize(
    "same",
    [
        {"url": "http://a.example/?a=1&b=2#part"},
        {"priority": 5, "meta": {"a": 1}, "callback": "parse_it", "dont_filter": True},
        {"headers": {"Referer": "http://b.example/"}},
        {"settings": {"delay": 3.0}},
    ],
)
def test_what_the_server_does_not_look_at(same: dict[str, Any]) -> None:
    assert key(**same) == key()


@pytest.mark.parametrize(
    "different",
    [
        {"url": "http://a.example/?a=1"},
        {"method": "POST"},
        {"body": b"1", "method": "POST"},
        {"headers": {"Accept-Language": "de"}},
        {"cookies": {"a": "1"}},
        {"session": "one"},
        {"owner": "somebody"},
        {"settings": {"headers": {"Accept": "text/plain"}}},
        {"settings": {"user_agent": "me"}},
        {"downloader": "browser"},
    ],
)
def test_parts_that_change_the_key(different: dict[str, Any]) -> None:
    assert key(**different) != key()


def test_names_of_headers_have_no_case() -> None:
    assert key(headers={"X-A": "1"}) == key(headers={"x-a": "1"}) != key(headers={"x-a": "2"})
    assert key(settings={"headers": {"x-a": "1"}}) == key(settings={"headers": {"X-A": "1"}})
