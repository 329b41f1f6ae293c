"""OneTask: one task in the RequestRunner of a worker, without queue and database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.client.records import Claimed, TaskView
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.node.worker.task.task_source import TaskSource
from crawlframe.request.request import Admission, Request, end_admission, make_rid, root_admission
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome
from crawlframe.spider.task_info import Summary

RUNNING = TaskView("running", 0)


class OneTask(TaskSource):
    """Runs requests of one task. ``spec``, ``cookies`` and ``summary`` are what a worker would load
    from the database and Redis; they can be changed between two runs."""

    def __init__(
        self,
        spec: TaskSpec,
        make: Callable[[TaskSpec], TaskCrawl],
        downloader: Downloader,
        settings: Settings | None = None,
        version: str = "",
        mark: Callable[[int, bytes], None] = lambda slot, rid: None,
        **more: Any,
    ) -> None:
        """``more`` is passed to the RequestRunner."""
        self.task = spec.task
        self._make = make
        self.spec: TaskSpec | None = spec
        self.cookies: dict[str, str] = {}
        self.summary: Summary | None = None
        self.runner = RequestRunner(
            settings or Settings(),
            self,
            version,
            downloader,
            Sieve(),
            mark,
            **more,
        )

    async def run(
        self,
        request: Request,
        view: TaskView = RUNNING,
        *,
        attempts: int = 0,
        deliveries: int = 0,
        kills: int = 0,
        refusals: int = 0,
        due: float | None = None,
    ) -> Outcome:
        """Returns the outcome of a request, which is encoded and decoded first. Raises BadRequest
        if it cannot be encoded."""
        rid, record = make_rid(self.task, request.fingerprint()), request.encode()
        before = attempts, deliveries, record, 0, kills, refusals
        return await self.take(Claimed(rid, self.task, request.host, *before, due=due), view)

    async def start(self) -> Outcome:
        """Returns the outcome of the root request, which runs ``start``."""
        return await self._first(root_admission(self.task))

    async def end(self, view: TaskView = RUNNING) -> Outcome:
        """Returns the outcome of the last request, which runs ``closed``."""
        return await self._first(end_admission(self.task), view)

    async def take(self, claimed: Claimed, view: TaskView = RUNNING) -> Outcome:
        """Returns the outcome of a claimed request, run in its own asyncio task and context, as in
        a worker."""
        return await asyncio.create_task(self.runner.run(claimed, view))

    async def _first(self, admission: Admission, view: TaskView = RUNNING) -> Outcome:
        rid, _, host, _, record = admission
        return await self.take(Claimed(rid, self.task, host, 0, 0, record), view)

    async def load_task(self, task: int) -> TaskSpec | None:
        return self.spec

    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        return self.cookies, 0

    async def load_summary(self, task: int) -> Summary | None:
        return self.summary

    def make(self, spec: TaskSpec) -> TaskCrawl:
        return self._make(spec)
