"""The request of a callback with a page of the browser. No browser is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from crawlframe.actions import KeepPage
from crawlframe.errors import BrowserLost, FetchError, UsageDenied
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.request.request import Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
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
    """``after``: the problem of the answer."""

    def __init__(self, status: int = 200, after: FetchError | None = None) -> None:
        super().__init__(status)
        self.held = Held()
        self._after = after

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        response = RenderedResponse(request.url, self._status, {}, b"<p>", request)
        response.held = Shop.page = self.held
        assert context.account is not None
        context.account.hold(self.held.release)
        if self._after is not None:
            raise self._after
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

    page: ClassVar[Held]

    def failed(self, error: FetchError) -> Iterator[Any]:
        yield {"failed": error.reason, "closed": self.page.closed}

    async def uses(self, error: FetchError) -> dict[str, Any]:
        page = await error.response.page()
        return {"closed": page.is_closed()}


def run(
    callback: str | None = None,
    attempts: int = 0,
    downloader: Rendering | None = None,
    **more: Any,
) -> tuple[Outcome, Held]:
    downloader = downloader or Rendering()
    tasks = Tasks(Shop, downloader)
    request = Request(URL, callback, actions=[KeepPage()], **more)
    outcome = asyncio.run(tasks.run(request, attempts=attempts))
    return outcome, downloader.held


def test_the_end_of_its_browser_is_that_of_a_fetch() -> None:
    outcome, held = run()
    assert (outcome.verdict, outcome.reason) == (Verdict.RETRY, "browser_lost")
    assert (outcome.results.items, outcome.results.follow_ups) == ([], [])
    assert held.closed


def test_with_the_last_attempt_it_ends_and_its_errback_runs() -> None:
    outcome, _ = run(attempts=1, errback="failed")
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "browser_lost")
    # The page is closed before, so that the errback can open another.
    assert items(outcome) == [{"failed": "browser_lost", "closed": True}]


def test_an_errback_holds_no_page_of_a_fetch_that_failed_afterwards() -> None:
    refused = Rendering(after=UsageDenied("not for this"))
    outcome, _ = run(errback="failed", downloader=refused)
    assert items(outcome) == [{"failed": "usage", "closed": True}]


def test_an_errback_uses_the_page_of_a_response_until_it_ends() -> None:
    outcome, held = run(attempts=1, errback="uses", downloader=Rendering(status=404))
    assert (outcome.reason, items(outcome)) == ("http_404", [{"closed": False}])
    assert held.closed


def test_an_errback_that_raises_it_again_ends_the_request() -> None:
    outcome, _ = run(attempts=1, errback="raises")
    assert (outcome.verdict, outcome.reason, items(outcome)) == (Verdict.ERROR, "callback", [])
    assert Shop.raised == 1


def test_a_callback_may_bear_it() -> None:
    outcome, held = run("bears")
    assert (outcome.verdict, items(outcome)) == (Verdict.DONE, [{"title": "browser_lost"}])
    assert held.closed


@pytest.mark.parametrize(("held", "reported"), [(True, 0), (False, 1)])
def test_a_page_that_is_kept_keeps_the_slot_of_its_host(held: bool, reported: int) -> None:
    """Until the request is settled: pages of one host would occupy all of the browser."""
    ended: list[Any] = []
    downloader = Rendering() if held else Ready()
    tasks = Tasks(Shop, downloader, fetched=lambda claimed, signal: ended.append(claimed.rid))
    actions = [KeepPage()] if held else None
    outcome = asyncio.run(tasks.run(Request(URL, "bears", actions=actions)))
    assert len(ended) == reported
    assert outcome.fetch.slot is held


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
