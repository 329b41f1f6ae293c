"""The page of a browser as callbacks use it; no browser is needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawlframe.actions import KeepPage
from crawlframe.errors import PageClosed
from crawlframe.request.request import Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.live_page import LivePage, Navigation
from crawlframe.response.page_calls import CALLS, kind_after
from crawlframe.response.response import Response

URL = "https://shop.example/"


class Fake:
    """In place of the page in the browser: the fake of an author's test."""

    url = URL
    closed = False

    def __init__(self, result: Any = None) -> None:
        self.calls: list[Any] = []
        self.result = result

    async def call(self, steps: list[Any]) -> Any:
        self.calls.append(steps)
        return self.result

    def release(self) -> None:
        self.closed = True


def rendered() -> RenderedResponse:
    return RenderedResponse(URL, 200, {}, b"", Request(URL, actions=[KeepPage()]))


def test_calls_are_data_in_the_order_of_the_chain() -> None:
    held = Fake()
    page = LivePage(held)
    button = page.frame_locator("#f").get_by_role("button", name="Go").first
    asyncio.run(button.click(timeout=5))
    assert held.calls == [
        [
            ("frame_locator", ["#f"], {}),
            ("get_by_role", ["button"], {"name": "Go"}),
            ("first", None, {}),
            ("click", [], {"timeout": 5}),
        ]
    ]


def test_navigation_returns_url_and_status() -> None:
    navigation = asyncio.run(LivePage(Fake([URL, 404])).goto("/"))
    assert navigation == Navigation(URL, 404)
    assert not navigation.ok


def test_a_test_gives_a_page_of_its_own() -> None:
    response = rendered()
    with pytest.raises(PageClosed, match=r"in a test, give RenderedResponse\.held"):
        asyncio.run(response.page())
    response.held = Fake("title")

    async def callback() -> Any:
        page = await response.page()
        title = await page.title()
        await page.close()
        return title

    assert asyncio.run(callback()) == "title"
    with pytest.raises(PageClosed, match="until its callback ends"):
        asyncio.run(response.page())


def test_a_response_of_no_browser_names_the_fix() -> None:
    response = Response(URL, 200, {}, b"", Request(URL))
    with pytest.raises(PageClosed, match=r"was not rendered in a browser; yield Request\(url, "):
        asyncio.run(response.page())


@pytest.mark.parametrize("name", ["route", "context", "expose_function", "set_input_files", "on"])
def test_what_reaches_beyond_the_page_is_no_call(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no {name!r}; it has"):
        getattr(LivePage(Fake()), name)
    for kind in CALLS:
        assert kind_after(kind, name, called=True) is None
        assert kind_after(kind, name, called=False) is None


def test_all_calls_are_of_playwright() -> None:
    api = pytest.importorskip("playwright.async_api", reason="no playwright here")
    kinds = {
        "page": api.Page, "locator": api.Locator, "frames": api.FrameLocator,
        "keyboard": api.Keyboard, "mouse": api.Mouse,
    }  # fmt: skip
    for kind, calls in CALLS.items():
        for name in {*calls.parts, *calls.makes, *calls.does}:
            assert hasattr(kinds[kind], name), (kind, name)
