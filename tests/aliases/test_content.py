"""Content of pages when two URLs are compared, and pages that prove nothing."""

from __future__ import annotations

import time

import pytest

from crawlframe.aliases.verify import Content, content_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response

TEXT = " ".join(f"word{n}" for n in range(30))


def content(url: str, body: str, status: int = 200, kind: str = "text/html") -> Content:
    url = f"http://shop.example{url}"
    return content_of(Response(url, status, [("Content-Type", kind)], body.encode(), Request(url)))


def page(text: str = TEXT, title: str = "Lamps", more: str = "") -> str:
    return f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}{more}</body>"


def test_the_session_of_its_own_url_does_not_count() -> None:
    one, other = "9f86d081884c7d65", "2c26b46b68ffc68f"
    pages = [
        content(f"/a?sid={sid}", page(more=f"session {sid} <a href='/b?sid={sid}'>b</a>"))
        for sid in (one, other)
    ]
    assert pages[0] == pages[1]
    foreign = content(f"/a?sid={one}", page(more=f"session {other} <a href='/b'>b</a>"))
    assert foreign.exact != pages[0].exact


def test_a_short_value_counts() -> None:
    one, other = (content(f"/a?day={day}", page(more=f"day {day}")) for day in ("0105", "0106"))
    assert one.exact != other.exact


def test_invisible_content_does_not_count() -> None:
    plain = content("/a", page())
    assert content("/a", page(more="<script>1</script><!-- 2 --><style>3</style>")) == plain
    assert content("/a", page(more="<input type=hidden value=77>")) == plain


@pytest.mark.parametrize(
    "more", ["<img src='/2.png'>", "<a href='/2'>", "<a href='/1/x'>", " further"]
)
def test_visible_content_counts(more: str) -> None:
    assert content("/a", page(more=more)).exact != content("/a", page()).exact


def test_order_counts_unless_it_is_asked_otherwise() -> None:
    one = content("/a", page(more="<li><a href='/1'>One</a><li><a href='/2'>Two</a>"))
    other = content("/a", page(more="<li><a href='/2'>Two</a><li><a href='/1'>One</a>"))
    assert one.exact != other.exact
    assert one.unordered == other.unordered


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (page(), 404),
        (page(title="404"), 200),
        (page(title="Page not found"), 200),
        (page(title="Sign in"), 200),
        (page(title="页面不存在"), 200),
        (page(more="<input type='password'>"), 200),
        (page(text="hello"), 200),
        ("", 200),
    ],
)
def test_pages_that_prove_nothing(body: str, status: int) -> None:
    assert not content("/a", body, status).proves


@pytest.mark.parametrize("title", ["Lamps", "Item 450", "Terrorism"])
def test_a_page_proves_something(title: str) -> None:
    assert content("/a", page(title=title)).proves


def test_other_kinds_are_compared_by_their_bytes() -> None:
    one = content("/a", '{"a": 1, "b": 2}' * 20, kind="application/json")
    assert one.proves
    assert one.exact == one.unordered
    assert content("/a", '{"b": 2, "a": 1}' * 20, kind="application/json").exact != one.exact


@pytest.mark.parametrize("path", ["/" + "a" * 200_000, "/?" + "&".join(["a1" * 9] * 20_000)])
def test_a_long_url_takes_no_long_time(path: str) -> None:
    start = time.process_time()
    content(path, page(more="<a href='/1'>1</a>" * 2000))
    assert time.process_time() - start < 2
