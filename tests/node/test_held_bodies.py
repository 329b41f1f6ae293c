"""A body counts in the memory of transfers until its callback is over, whatever it ended with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import ConnectionLost
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.memory import Account
from crawlframe.frontier.records import Claimed, TaskView
from crawlframe.ledger import TaskSpec
from crawlframe.node.run_request import RequestRunner
from crawlframe.node.sieve import Sieve
from crawlframe.outcome import Outcome, Verdict
from crawlframe.registry import Registry
from crawlframe.request import Request, make_rid
from crawlframe.response import Response
from crawlframe.spider import Spider

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
    """Has every body at once."""

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        account: Account = others[-1]
        await account.reserve(SIZE)
        if "lost" in request.url:
            account.settle(0)
            raise ConnectionLost("gone")
        account.settle(SIZE)
        status = 404 if "404" in request.url else 200
        return Response(request.url, status, {}, bytes(SIZE), request)


def run(path: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, list[int], int]:
    settings = Settings()
    downloader = Ready(settings)
    monkeypatch.setattr(Holding, "held", [])
    monkeypatch.setattr(Holding, "downloader_of_test", downloader)

    class OneSpider(Registry):
        def __init__(self) -> None:
            pass

        def get(self, name: str) -> type[Spider]:
            return Holding

    async def load_task(task: int) -> TaskSpec:
        return TaskSpec(task, "holding", {}, 0)

    async def load_cookies(task: int) -> dict[str, str]:
        return {}

    request = Request(f"http://h/{path}", errback="sorry")
    rid = make_rid(1, request.fingerprint())
    claimed = Claimed(rid, 1, request.host, 9, 0, request.encode())

    async def main() -> Outcome:
        runner = RequestRunner(
            settings, OneSpider(), "", downloader, Sieve(), load_task, load_cookies,
            lambda slot, rid: None,
        )  # fmt: skip
        return await runner.run(claimed, TaskView("running", 0))

    outcome = asyncio.run(main())
    return outcome, Holding.held, downloader.memory.held


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
