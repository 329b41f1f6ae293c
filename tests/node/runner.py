"""One task of a spider in a RequestRunner, with a real downloader or given responses."""

from __future__ import annotations

import ipaddress
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson

from crawlframe import FetchError, Request, Response, Spider
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.node.running_marks import STEPS
from crawlframe.node.worker.fetch.stages import FetchSources
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.node.worker.verdict.signals import FetchReports
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.outcome import Outcome
from crawlframe.testing.trial import OneTask

HERE = Settings(allow_private=(ipaddress.ip_network("127.0.0.0/8"),))
URL = "http://shop.example/a"
HTML = {"Content-Type": "text/html"}


class Spiders(Registry):
    """A registry of these spiders; nothing is imported for them."""

    def __init__(self, *spiders: type[Spider]) -> None:
        self.spiders = {spider.name: spider for spider in spiders}
        self.broken = {}


class Ready(Downloader):
    """A downloader that has every response at once."""

    def __init__(
        self,
        status: int = 200,
        error: FetchError | None = None,
        body: bytes = b"fetched",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(Settings())
        self.asked: list[Request] = []
        self._status = status
        self._error = error
        self._body = body
        self._fields = headers or {}

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        self.asked.append(request)
        if self._error is not None:
            raise self._error
        return Response(request.url, self._status, self._fields, self._body, request)


class Tasks(OneTask):
    """``marks``: (slot, rid) in order; ``others``: spiders of the registry; ``more``: fields."""

    def __init__(
        self,
        spider: type[Spider],
        downloader: Downloader,
        arguments: dict[str, Any] | None = None,
        *others: type[Spider],
        task: int = 1,
        priority: int = 0,
        settings: Settings = HERE,
        **more: Any,
    ) -> None:
        self.marks: list[tuple[int, bytes]] = []
        for name, kind in (("reports", FetchReports), ("sources", FetchSources)):
            given = {one.name: more.pop(one.name, None) for one in fields(kind)}
            if found := {key: value for key, value in given.items() if value is not None}:
                more[name] = kind(**found)
        super().__init__(
            TaskSpec(task, spider.name, arguments or {}, priority),
            CrawlMaker(Spiders(spider, *others), settings.deadline).make,
            downloader,
            settings,
            mark=lambda slot, rid: None if slot == STEPS else self.marks.append((slot, rid)),
            **more,
        )


class Runs(Tasks):
    """A task with a page that every request gets."""

    def __init__(
        self,
        registry: Registry,
        spider: str = "shop",
        body: bytes = b"<p>hello",
        **arguments: Any,
    ) -> None:
        downloader = Ready(body=body, headers=HTML)
        super().__init__(registry.get(spider), downloader, arguments, task=7, priority=5)

    async def page(self, url: str = URL, attempts: int = 0) -> Outcome:
        """The outcome of a page."""
        return await self.run(Request(url), attempts=attempts)


def registry_of(folder: Path, source: str) -> Registry:
    """The spiders of one module."""
    package = folder / "seam_spiders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "shop.py").write_text(source)
    return Registry.load(package)


def items(outcome: Outcome) -> list[Any]:
    return [orjson.loads(item) for item in outcome.results.items]
