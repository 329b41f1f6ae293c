"""Runs of a spider's requests in a worker's RequestRunner, without network and database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.records import Claimed, TaskView
from crawlframe.ledger import TaskSpec
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.node.worker.sieve import Sieve
from crawlframe.outcome import Outcome
from crawlframe.request import Request, end_admission, make_rid, root_admission
from crawlframe.response import Response
from crawlframe.task_life import Summary

URL = "http://shop.example/a"
TASK = 7
HERE = Settings()


class Fetched(Downloader):
    """A downloader that has the response already."""

    def __init__(self, body: bytes) -> None:
        super().__init__(HERE)
        self._body = body

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        return Response(request.url, 200, {"Content-Type": "text/html"}, self._body, request)


def registry_of(folder: Path, source: str) -> Registry:
    """The spiders of one module."""
    package = folder / "seam_spiders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "shop.py").write_text(source)
    return Registry.load(package)


class Runs:
    """One worker with one task of a spider, for which all pages look the same."""

    def __init__(
        self,
        registry: Registry,
        spider: str = "shop",
        body: bytes = b"<p>hello",
        **arguments: Any,
    ) -> None:
        async def load_task(task: int) -> TaskSpec:
            return TaskSpec(task, spider, arguments, 5)

        async def load_cookies(task: int) -> tuple[dict[str, str], int]:
            return {}, 0

        async def load_summary(task: int) -> Summary | None:
            return self.summary

        self.summary: Summary | None = None
        self.runner = RequestRunner(
            HERE, registry, "", Fetched(body), Sieve(), load_task, load_cookies, lambda *_: None,
            load_summary=load_summary,
        )  # fmt: skip

    async def run(self, request: Request | None = None, attempts: int = 0) -> Outcome:
        """The outcome of a page, by default that of ``URL``."""
        request = request or Request(URL)
        rid = make_rid(TASK, request.fingerprint())
        return await self.take(Claimed(rid, TASK, request.host, attempts, 0, request.encode()))

    async def start(self) -> Outcome:
        rid, _, host, _, record = root_admission(TASK)
        return await self.take(Claimed(rid, TASK, host, 0, 0, record))

    async def end(self, state: str = "running") -> Outcome:
        rid, _, host, _, record = end_admission(TASK)
        return await self.take(Claimed(rid, TASK, host, 0, 0, record), state)

    async def take(self, claimed: Claimed, state: str = "running") -> Outcome:
        # In a task of its own, as in a worker: each has its own context.
        return await asyncio.create_task(self.runner.run(claimed, TaskView(state, 0)))


def items(outcome: Outcome) -> list[Any]:
    return [orjson.loads(item) for item in outcome.items]
