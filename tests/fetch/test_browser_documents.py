"""Documents of a page: those of its order, and others. No browser is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright.async_api", reason="no playwright here")

from crawlframe.errors import TooManyRedirects
from crawlframe.fetch.browser import documents
from crawlframe.fetch.browser.documents import MAX_MOVES, Documents
from crawlframe.fetch.browser.orders import Order, Profile

URL = "http://shop.example/a|b"
SPELT = "http://shop.example/a%7Cb"  # by the browser
PROFILE = Profile("1", "", "", None, trackers=False)


class Cdp:
    """Stands for the browser: ``passed`` has the documents that were sent, with their headers."""

    def __init__(self) -> None:
        self.passed: list[tuple[str, list[dict[str, str]]]] = []
        self.failed: list[str] = []
        self._listener: Callable[[dict[str, Any]], None]

    def on(self, event: str, listener: Callable[[dict[str, Any]], None]) -> None:
        self._listener = listener

    def remove_listener(self, event: str, listener: object) -> None:
        pass

    async def send(self, verb: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if verb == "Fetch.continueRequest":
            self.passed.append((parameters["requestId"], parameters.get("headers", [])))
        elif verb == "Fetch.failRequest":
            self.failed.append(parameters["requestId"])
        return {}

    async def pause(self, id: str, url: str = SPELT, **more: Any) -> None:
        request = {"url": url, "headers": {"A": "browser"}}
        self._listener({"frameId": "main", "requestId": id, "request": request, **more})
        for _ in range(5):
            await asyncio.sleep(0)

    async def answer(self, id: str, url: str = SPELT) -> None:
        await self.pause(
            id,
            url,
            responseStatusCode=200,
            responseHeaders=[
                {"name": "Content-Type", "value": "text/html"},
                {"name": "Content-Length", "value": "2"},
            ],
        )


class Parts:
    """The documents of one order, whose turn comes with ``turn``."""

    def __init__(self) -> None:
        self.cdp = Cdp()
        self.turn = asyncio.Event()
        self.turns = 0
        self.asked: list[str] = []
        order = Order(
            1, PROFILE, URL, "GET", None, [("X", "1")], None, 1.0, 1000, [], 0.0, True, [], False
        )
        self.documents = Documents(
            *(self.cdp, "main", order, self._before_sent, self._may_go, lambda: None)  # type: ignore[arg-type]
        )
        self.documents.open()

    async def _before_sent(self) -> None:
        self.turns += 1
        await self.turn.wait()

    async def _may_go(self, url: str) -> bool:
        self.asked.append(url)
        return True

    @property
    def sent(self) -> list[str]:
        return [id for id, headers in self.cdp.passed if {"name": "X", "value": "1"} in headers]


def test_what_the_page_before_asks_for_is_not_sent() -> None:
    async def main() -> None:
        parts = Parts()
        parts.turn.set()
        await parts.cdp.pause("old", "http://shop.example/timer")
        assert parts.cdp.passed == []
        await parts.cdp.pause("own")
        assert parts.sent == ["own"]
        await asyncio.sleep(0.02)
        assert [id for id, _ in parts.cdp.passed] == ["own"]
        assert parts.turns == 1

    asyncio.run(main(), debug=False)


def test_one_that_is_spelt_in_another_way_is_that_of_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "OTHER", 0.001)

    async def main() -> None:
        parts = Parts()
        parts.turn.set()
        await parts.cdp.pause("own", "http://shop.example/x|b")
        await asyncio.sleep(0.05)
        assert parts.sent == ["own"]

    asyncio.run(main())


def test_a_reload_of_the_page_before_leaves_its_turn_to_the_order() -> None:
    async def main() -> None:
        parts = Parts()
        await parts.cdp.pause("reload")
        await parts.cdp.pause("own")
        assert parts.cdp.passed == []
        parts.turn.set()
        await asyncio.sleep(0.01)
        assert parts.sent == ["own"]
        await parts.cdp.pause("again")  # the turn came before the browser knew of the order
        assert parts.sent == ["own", "again"]
        assert (parts.turns, parts.asked) == (1, [])

    asyncio.run(main())


def test_an_answer_that_the_order_before_has_asked_for_is_not_its_own() -> None:
    async def main() -> None:
        parts = Parts()
        parts.turn.set()
        await parts.cdp.answer("late", "http://shop.example/late")
        assert parts.documents.answer is None
        assert parts.cdp.failed == ["late"]
        await parts.cdp.pause("own")
        await parts.cdp.answer("own")
        assert parts.documents.answer is not None
        assert parts.documents.answer.url == SPELT

    asyncio.run(main())


@pytest.mark.parametrize("held", [False, True])
def test_a_page_leads_on_some_times_and_one_that_is_used_as_often_as_it_is_told(held: bool) -> None:
    async def main() -> None:
        parts = Parts()
        parts.turn.set()
        await parts.cdp.pause("own")
        await parts.cdp.answer("own")
        parts.documents.held = held
        for n in range(MAX_MOVES):
            await parts.cdp.pause(f"move {n}", f"http://shop.example/{n}")
        assert parts.documents.failure is None
        await parts.cdp.pause("last", "http://shop.example/last")
        if held:
            assert parts.documents.failure is None
            assert parts.asked[-1] == "http://shop.example/last"
        else:
            assert isinstance(parts.documents.failure, TooManyRedirects)
            assert parts.cdp.failed == ["last"]
            assert len(parts.asked) == MAX_MOVES

    asyncio.run(main())
