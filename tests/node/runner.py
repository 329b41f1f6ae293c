"""A RequestRunner for one spider, with a real downloader or one that has every response."""

from __future__ import annotations

import ipaddress
from typing import Any

from crawlframe import FetchError, Request, Response, Spider
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.records import Claimed, TaskView
from crawlframe.ledger import TaskSpec
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.node.worker.sieve import Sieve
from crawlframe.outcome import Outcome
from crawlframe.request import make_rid, root_admission

HERE = Settings(allow_private=(ipaddress.ip_network("127.0.0.0/8"),))


class Ready(Downloader):
    """A downloader that has every response at once."""

    def __init__(self, status: int = 200, error: FetchError | None = None) -> None:
        super().__init__(Settings())
        self.asked: list[Request] = []
        self._status = status
        self._error = error

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        self.asked.append(request)
        if self._error is not None:
            raise self._error
        return Response(request.url, self._status, {}, b"fetched", request)


class Tasks:
    """One runner, for a spider and a downloader. ``marks`` has (slot, rid) in order."""

    def __init__(
        self, spider: type[Spider], downloader: Downloader, arguments: dict[str, Any] | None = None
    ) -> None:
        self.marks: list[tuple[int, bytes]] = []
        self.cookies: dict[str, str] = {}

        class OneSpider(Registry):
            def __init__(self) -> None:
                pass

            def get(self, name: str) -> type[Spider]:
                return spider

        async def load_task(task: int) -> TaskSpec:
            return TaskSpec(task, spider.name, arguments or {}, 0)

        async def load_cookies(task: int) -> tuple[dict[str, str], int]:
            return self.cookies, 0

        self._runner = RequestRunner(
            HERE, OneSpider(), "", downloader, Sieve(), load_task, load_cookies,
            lambda slot, rid: self.marks.append((slot, rid)),
        )  # fmt: skip

    async def run(self, request: Request, attempts: int = 0, task: int = 1) -> Outcome:
        record, rid = request.encode(), make_rid(task, request.fingerprint())
        view = TaskView("running", len(self.cookies))
        return await self._runner.run(Claimed(rid, task, request.host, attempts, 0, record), view)

    async def start(self) -> Outcome:
        seed = root_admission(1)
        return await self._runner.run(
            Claimed(seed.rid, 1, seed.host, 0, 0, seed.record), TaskView("running", 0)
        )
