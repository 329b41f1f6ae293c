"""What a callback with a page of the browser means for its request. No browser is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from crawlframe.actions import KeepPage
from crawlframe.errors import BrowserLost, FetchError
from crawlframe.outcome import Outcome, Verdict
from crawlframe.rendered import RenderedResponse
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider
from tests.node.runner import Ready, Tasks, items

URL = "http://shop.example/"


class Held:
    """A page whose browser dies at each call."""

    url = URL
    closed = False

    async def call(self, steps: list[Any]) -> Any:
        error = BrowserLost("the browser ended")
        error.of_page = True
        raise error

    def release(self) -> None:
        self.closed = True


class Rendering(Ready):
    def __init__(self) -> None:
        super().__init__()
        self.held = Held()

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        response = RenderedResponse(request.url, 200, {}, b"<p>", request)
        response.held = self.held
        account = more.get("account") or others[4]
        account.hold(self.held.release)
        return response


class Shop(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"retries": 1}

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield {"before": 1}
        yield Request(f"{URL}next")
        page = await response.page()
        yield {"title": await page.title()}

    async def bears(self, response: Response) -> dict[str, str]:
        page = await response.page()
        try:
            return {"title": await page.title()}
        except FetchError as error:
            return {"title": error.reason}

    def plain(self, response: Response) -> Iterator[Any]:
        yield {"n": 1}

    raised = 0

    def raises(self, error: FetchError) -> None:
        type(self).raised += 1
        raise error

    def failed(self, error: FetchError) -> Iterator[Any]:
        yield {"failed": error.reason}


def run(callback: str | None = None, attempts: int = 0, **more: Any) -> tuple[Outcome, Held]:
    downloader = Rendering()
    tasks = Tasks(Shop, downloader)
    request = Request(URL, callback, actions=[KeepPage()], **more)
    outcome = asyncio.run(tasks.run(request, attempts=attempts))
    return outcome, downloader.held


def test_the_end_of_its_browser_is_that_of_a_fetch() -> None:
    outcome, held = run()
    assert (outcome.verdict, outcome.reason) == (Verdict.RETRY, "browser_lost")
    assert (outcome.items, outcome.follow_ups) == ([], [])
    assert held.closed


def test_with_the_last_attempt_it_ends_and_its_errback_runs() -> None:
    outcome, _ = run(attempts=1, errback="failed")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "browser_lost")
    assert items(outcome) == [{"failed": "browser_lost"}]


def test_an_errback_that_raises_it_again_ends_the_request() -> None:
    outcome, _ = run(attempts=1, errback="raises")
    assert (outcome.verdict, outcome.reason, items(outcome)) == (Verdict.ERROR, "callback", [])
    assert Shop.raised == 1


def test_a_callback_may_bear_it() -> None:
    outcome, held = run("bears")
    assert (outcome.verdict, items(outcome)) == (Verdict.DONE, [{"title": "browser_lost"}])
    assert held.closed


def test_one_that_cannot_await_waits_for_code_that_can() -> None:
    outcome, _ = run("plain")
    assert outcome.verdict is Verdict.PARK
    assert "KeepPage" in outcome.reason
    assert "async def plain" in outcome.reason


@pytest.mark.parametrize("callback", ["plain", "bears"])
def test_others_need_no_page(callback: str) -> None:
    tasks = Tasks(Shop, Ready())
    outcome = asyncio.run(tasks.run(Request(URL, callback)))
    reason = "callback" if callback == "bears" else ""  # PageClosed, with the fix
    assert outcome.reason == reason
    assert ("KeepPage()" in outcome.detail) is bool(reason)
