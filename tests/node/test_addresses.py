"""Reports of a worker about addresses of hosts, for tasks that limit the traffic to an address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

from crawlframe import Request, Response, Spider
from crawlframe.frontier.client.records import ANSWERED, NOTHING, Claimed, Signal
from crawlframe.node.worker.fetch.stages import UNRESOLVED
from crawlframe.run.outcome import Outcome, Verdict
from tests.node.runner import URL, Ready, Tasks


class Plain(Spider):
    """A spider without such limits."""

    name = "plain"
    settings: ClassVar[dict[str, Any]] = {}

    def start(self) -> Iterator[Request]:
        yield Request(URL)

    def parse(self, response: Response) -> None:
        pass


class Limited(Plain):
    name = "limited"
    settings: ClassVar[dict[str, Any]] = {"ip": {"concurrency": 2}}


class At(Ready):
    """``addresses``: of the connections, one after another."""

    def __init__(self, *addresses: str, resolved: str = "192.0.2.7") -> None:
        super().__init__()
        self._addresses = iter(addresses)
        self._resolved = resolved

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        response = await super().fetch(request, *others, **more)
        response.address = next(self._addresses)
        return response

    async def address_of(self, url: str) -> str:
        return self._resolved


class Worker:
    def __init__(self, spider: type[Spider], downloader: At) -> None:
        self.signals: list[Signal] = []
        self.downloader = downloader
        self._tasks = Tasks(
            spider, downloader, fetched=lambda claimed, signal: self.signals.append(signal)
        )

    def run(self, *requests: Request, homeless: bool = False) -> list[Outcome]:
        if homeless:
            runner = self._tasks.runner
            original = runner.run

            async def lost(claimed: Claimed, view: Any) -> Outcome:
                return await original(claimed._replace(homeless=True), view)

            runner.run = lost  # type: ignore[method-assign]

        async def all_() -> list[Outcome]:
            return [await self._tasks.run(request) for request in requests]

        return asyncio.run(all_())


def addresses(worker: Worker) -> list[str]:
    return [signal.address for signal in worker.signals]


def test_a_new_address_is_reported_once() -> None:
    worker = Worker(Limited, At("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"))
    worker.run(*[Request(URL)] * 4)
    assert addresses(worker) == ["192.0.2.1", "", "192.0.2.2", ""]
    assert worker.signals[0].kind == ANSWERED


def test_each_host_has_its_own() -> None:
    worker = Worker(Limited, At("192.0.2.1", "192.0.2.1"))
    worker.run(Request(URL), Request("http://other.example/"))
    assert addresses(worker) == ["192.0.2.1", "192.0.2.1"]


def test_a_task_without_limits_reports_none() -> None:
    worker = Worker(Plain, At("192.0.2.1"))
    worker.run(Request(URL))
    assert addresses(worker) == [""]


def test_an_unknown_address_is_not_reported() -> None:
    worker = Worker(Limited, At(""))
    worker.run(Request(URL))
    assert addresses(worker) == [""]


def test_a_request_of_a_host_without_address_only_finds_it_out() -> None:
    worker = Worker(Limited, At())
    (outcome,) = worker.run(Request(URL), homeless=True)
    assert outcome.verdict is Verdict.RELEASE
    assert outcome.fetch.signal == Signal(NOTHING, 0, "192.0.2.7")
    assert worker.downloader.asked == []
    assert worker.signals == []  # the slot is freed by the release


def test_names_that_do_not_resolve_share_the_limits_of_one_address() -> None:
    """They are fetched for their error, or by a middleware, but not without a delay."""
    worker = Worker(Limited, At("", resolved=""))
    (outcome,) = worker.run(Request(URL), homeless=True)
    assert outcome.verdict is Verdict.RELEASE
    assert outcome.fetch.signal == Signal(NOTHING, 0, UNRESOLVED)
    assert worker.downloader.asked == []
