"""A watch of a scripted site, without nodes: visits run in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crawlframe.frontier import Completion, Frontier
from crawlframe.request.request import ROOT_URL, Request, unpack_admissions
from crawlframe.revisit import Revisit
from crawlframe.revisit.visit import Visit
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.revisit_notes import Watching, digest_of
from crawlframe.spider.spider import Spider, SpiderInfo, describe


class News(Spider):
    """Watched."""

    name = "news"
    revisit = Revisit(every="1d")

    def start(self, city: str = "Ulm") -> Any: ...

    def parse(self, response: Any) -> Any: ...


@pytest.fixture
def ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets the clock of watches run ahead: ``ahead(days=1)``."""
    from crawlservice.watches import clock

    file = tmp_path / "ahead"
    file.write_text("0")
    monkeypatch.setattr(clock, "AHEAD", file)

    def move(**time: float) -> None:
        seconds = float(file.read_text()) + timedelta(**time).total_seconds()
        file.write_text(str(seconds))

    return move


class Site:
    """``pages``: path -> content, or a status. ``links``: found by start, with lastmod."""

    def __init__(self, frontier: Frontier, kind: type[Spider]) -> None:
        self.frontier = frontier
        self.pages: dict[str, str | int] = {}
        self.lastmod: dict[str, float] = {}
        self.links: dict[str, list[str]] = {}
        self.items: dict[str, list[bytes]] = {}
        self.visited: list[str] = []
        self.unmodified: set[str] = set()  # the server says that they have not changed
        self.version = "v1"
        self.use(kind)

    def use(self, kind: type[Spider]) -> None:
        self.info: SpiderInfo = describe(kind)
        self.frontier.spiders.publish([self.info])
        self._kind = kind

    def begin(self, **options: Any) -> Any:
        from crawlservice.watches import editing

        return editing.begin("news", {}, **options)

    def work(self, watch: Any) -> Any:
        """One step of the leader. Returns the round, or None."""
        from crawlservice.watches import parked, rounds

        return rounds.work(watch.pk, self.info, waiting=parked.find(watch))

    def visit(self, task: Any) -> list[Outcome]:
        """Runs a round as workers would."""
        from crawlservice.ledger.store import DjangoLedger
        from crawlservice.models import Task

        task = Task.objects.get(pk=task.pk)
        outcomes = [self._outcome(task, one) for one in unpack_admissions(task.seeds)]
        ledger = DjangoLedger()
        recorded = ledger.commit(outcomes)
        self.frontier.complete(
            [
                Completion(o.rid, task.pk, o.host, o.verdict is Verdict.ERROR,
                           recorded[o.rid].follow_ups, items=len(o.results.items))
                for o in outcomes
            ]
        )  # fmt: skip
        counts = self.frontier.counts(task.pk)
        assert counts is not None
        assert ledger.tasks.finish({task.pk: counts}) == {task.pk}
        self.frontier.close_tasks([task.pk])
        return outcomes

    def round(self, watch: Any) -> list[str]:
        """A whole round; returns the paths that were visited."""
        task = self.work(watch)
        if task is None:
            return []
        before = len(self.visited)
        self.visit(task)
        return sorted(self.visited[before:])

    def all_rounds(self, watch: Any) -> list[str]:
        before = len(self.visited)
        while (task := self.work(watch)) is not None:
            self.visit(task)
        return sorted(self.visited[before:])

    def _outcome(self, task: Any, admission: Any) -> Outcome:
        request = Request.decode(admission.record)
        outcome = Outcome(admission.rid, task.pk, admission.host, admission.record, 0, 1)
        outcome.url, outcome.callback, outcome.version = request.url, "parse", self.version
        spider = self._kind()
        watching = Watching.of(task.watch_id, spider)
        path = "start"
        if request.url == ROOT_URL:
            outcome.callback = "start"
        else:
            path = request.url.removeprefix("http://news.example/")
            self.visited.append(path)
        content = self.pages.get(path, "")
        if isinstance(content, int):
            outcome.end(Verdict.ERROR, f"http_{content}")
            outcome.fetch.status = content
            return outcome
        outcome.fetch.status = 200
        outcome.results.visit = visit = watching.visit(outcome.callback)
        assert isinstance(visit, Visit)
        for link in self.links.get(path, []):
            url = link if "//" in link else f"http://news.example/{link}"
            found = Request(url, "parse")
            found.depth = 0 if path == "start" else request.depth + 1
            page = watching.found(found, found.fingerprint(), found.host, found.rank())
            visit.found.append(page._replace(lastmod=self.lastmod.get(link)))
        outcome.results.items = self.items.get(path, [])
        visit.keys = [digest_of(item.split(b",")[0]) for item in outcome.results.items]
        if path in self.unmodified:
            outcome.results.items, visit.keys, visit.unchanged = [], [], True
        elif path != "start":
            visit.digest = digest_of(content.encode())
        return outcome


@pytest.fixture
def site(service: Frontier, ahead: Callable[..., None]) -> Site:
    return Site(service, News)
