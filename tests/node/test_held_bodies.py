"""A body counts in the memory of transfers until its callback is over, however it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import BadEncoding, ConnectionLost, FetchError, FetchTimeout
from crawlframe.fetch.body.memory import TransferMemory
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.node.worker.fetch import fetching
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
from tests.node.runner import Tasks

SIZE = 5 << 20


class Holding(Spider):
    name = "holding"
    held: ClassVar[list[int]] = []
    downloader_of_test: ClassVar[Any] = None

    def look(self) -> None:
        self.held.append(self.downloader_of_test.memory.held)

    def start(self) -> Iterator[Request]:
        yield from ()

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        self.look()
        await asyncio.sleep(0)
        if "fails" in response.url:
            raise ValueError("as authors do")
        yield {"size": len(response.body)}

    def sorry(self, error: Any) -> Iterator[Any]:
        self.look()
        yield from ()


class Ready(Downloader):
    """A downloader that has every body at once."""

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        account = context.account
        assert account is not None
        await account.reserve(SIZE)
        if "lost" in request.url:
            account.settle(0)
            raise ConnectionLost("gone")
        account.settle(SIZE)
        status = 404 if "404" in request.url else 200
        return Response(request.url, status, {}, bytes(SIZE), request)


def run(path: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, list[int], int]:
    downloader = Ready(Settings())
    task = task_with(downloader, monkeypatch)
    request = Request(f"http://h/{path}", errback="sorry")
    outcome = asyncio.run(task.run(request, attempts=9))
    return outcome, Holding.held, downloader.memory.held


def task_with(downloader: Downloader, monkeypatch: pytest.MonkeyPatch) -> Tasks:
    monkeypatch.setattr(Holding, "held", [])
    monkeypatch.setattr(Holding, "downloader_of_test", downloader)
    return Tasks(Holding, downloader, settings=Settings())


@pytest.mark.parametrize(
    ("path", "verdict", "while_called"),
    [
        ("fine", Verdict.DONE, [SIZE]),
        ("fails", Verdict.ERROR, [SIZE]),
        ("404", Verdict.ERROR, [SIZE]),  # the errback may look at the response
        ("lost", Verdict.ERROR, [0]),
    ],
)
def test_held_until_the_callback_is_over(
    monkeypatch: pytest.MonkeyPatch, path: str, verdict: Verdict, while_called: list[int]
) -> None:
    outcome, held, after = run(path, monkeypatch)
    assert outcome.verdict is verdict
    assert held == while_called
    assert after == 0


# -- lost for lack of memory ----------------------------------------------------------------------


class Full(Downloader):
    """A downloader without memory at first; its fetches are lost then."""

    error: FetchError = ConnectionLost("closed by the server")

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        account = context.account
        assert account is not None
        self.in_advance = account.in_advance
        with self.memory.account() as holder:
            await holder.reserve(int(self.memory.limit))
            waiting = asyncio.ensure_future(account.reserve(SIZE))
            await asyncio.sleep(0.001)
        await waiting
        account.settle(0)
        raise self.error


def verdicts(
    monkeypatch: pytest.MonkeyPatch,
    request: Request,
    error: FetchError,
    attempts: int = 9,
    retries: int = 2,
) -> list[tuple[str, bool]]:
    """The verdicts of two runs in one worker, and whether memory had to be free before the
    fetch."""
    downloader = Full(Settings())
    downloader.error = error
    monkeypatch.setattr(Holding, "settings", {"retries": retries}, raising=False)
    task = task_with(downloader, monkeypatch)

    async def main() -> list[tuple[str, bool]]:
        found = []
        for _ in range(2):
            outcome = await task.run(request, attempts=attempts)
            assert outcome.reason == error.reason
            assert outcome.verdict is not Verdict.DEFER or outcome.delay >= 500
            found.append((outcome.verdict.value, downloader.in_advance))
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("error", [ConnectionLost("closed"), FetchTimeout("forgotten")])
@pytest.mark.parametrize(("attempts", "then"), [(0, "retry"), (9, "error")])
def test_what_is_lost_for_lack_of_memory_is_excused_once(
    monkeypatch: pytest.MonkeyPatch, error: FetchError, attempts: int, then: str
) -> None:
    found = verdicts(monkeypatch, Request("http://h/"), error, attempts)
    assert found == [("defer", False), (then, True)]


def test_what_fails_for_another_reason_is_not_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdicts(monkeypatch, Request("http://h/"), BadEncoding("no gzip"))
    assert found == [("error", False)] * 2


@pytest.mark.parametrize(("retries", "first"), [(0, "error"), (2, "defer")])
def test_what_must_not_be_made_twice(
    monkeypatch: pytest.MonkeyPatch, retries: int, first: str
) -> None:
    request = Request("http://h/", method="POST")
    found = verdicts(monkeypatch, request, ConnectionLost("closed"), retries=retries)
    assert [verdict for verdict, _ in found] == [first, "error"]


def test_an_idempotent_one_is_fetched_again_without_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = verdicts(monkeypatch, Request("http://h/"), ConnectionLost("closed"), retries=0)
    assert found == [("defer", False), ("error", True)]


def test_as_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MAX_MEMORY_WAITS", 2)
    memory = TransferMemory()
    account = memory.account()
    account.wait_begins()
    excused = fetching.MemoryWaits()
    for rid in (b"a", b"b", b"c"):
        assert excused.excuses(rid, ConnectionLost(), account)
    assert [rid in excused.rids for rid in (b"a", b"b", b"c")] == [False, True, True]
