"""A crawl and its reparse without nodes, one request after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from crawlframe import Request, Response, Spider
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier import Counts, Frontier
from crawlframe.frontier.client.records import Claimed, TaskView
from crawlframe.node.worker.commit.known_links import SourceLinks
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.pages.kept_pages import KeptPages
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.node.worker.start.start_parts import StartParts, StartRoom
from crawlframe.node.worker.start.start_run import StartRuns
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.node.worker.task.task_source import TaskSource
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.request.request import Admission, unpack_admissions
from crawlframe.revisit.visit import Visit
from crawlframe.run.ledger import LedgerRefused, StartPart, TaskSpec
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participants
from crawlframe.spider.spider import describe
from crawlframe.spider.task_info import Summary
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Task
from crawlservice.reparse import submission as reparse
from crawlservice.tasks.submit import submit
from tests.node.runner import HERE, Spiders

Site = dict[str, tuple[int, bytes]]  # path -> status and body


class Web(Downloader):
    """``site`` may be changed between two tasks; ``asked`` has the paths that were fetched."""

    def __init__(self, site: Site) -> None:
        super().__init__(HERE)
        self.site = site
        self.asked: list[str] = []

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        path = request.url.removeprefix("http://shop.example")
        self.asked.append(path)
        status, body = self.site.get(path, (404, b"no"))
        headers = {"Content-Type": "text/html", "Set-Cookie": "sid=4711; Path=/"}
        return Response(request.url, status, headers, body, request)


class _Source(TaskSource):
    def __init__(self, ledger: DjangoLedger, make: Callable[[TaskSpec], TaskCrawl]) -> None:
        self._ledger = ledger
        self._make = make

    async def load_task(self, task: int) -> TaskSpec | None:
        return self._ledger.tasks.spec(task)

    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        return {}, 0

    async def load_summary(self, task: int) -> Summary | None:
        return None

    def make(self, spec: TaskSpec) -> TaskCrawl:
        return self._make(spec)


class _Pages(KeptPages):
    def __init__(self, ledger: DjangoLedger) -> None:
        self._ledger = ledger

    async def numbers(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        return self._ledger.pages.to_parse(reparse, after, most)

    async def page(self, number: int) -> SourcePage | None:
        return self._ledger.pages.sources([number])[0].get(number)

    def give(self, page: SourcePage) -> None:
        pass


class _Parts(StartParts):
    def __init__(self, ledger: DjangoLedger) -> None:
        self._rows = ledger
        self.waiting: list[Admission] = []

    async def last(self, task: int) -> StartPart | None:
        return self._rows.starts.last(task)

    async def record(self, host: str, part: StartPart, fingerprints: list[bytes]) -> StartPart:
        assert self._rows.starts.add(part)
        self.waiting += part.follow_ups
        return part

    async def found(self, task: int, visit: Visit) -> None:
        self._rows.starts.add_found(task, visit)

    async def room(self, task: int) -> StartRoom:
        return StartRoom.GO


class Crawling:
    """``version`` of the code; ``spider`` may be replaced."""

    def __init__(self, frontier: Frontier, spider: type[Spider], site: Site) -> None:
        self.frontier = frontier
        self.web = Web(site)
        self.ledger = DjangoLedger()
        self.spider = spider
        self.version = "first"
        self.outcomes: list[Outcome] = []

    def crawl(self, **settings: Any) -> Task:
        """A task of the spider, run to its end."""
        self.frontier.spiders.publish([describe(self.spider)])
        return self.run(submit(self.spider.name, {}, settings=settings))

    def parse(self, task: Task | None = None, **wanted: Any) -> Task:
        """A task that parses kept pages, by default all of ``task``, run to its end."""
        return self.run(self.begin(task, **wanted))

    def begin(self, task: Task | None = None, **wanted: Any) -> Task:
        self.frontier.spiders.publish([describe(self.spider)])
        return reparse.submit(task.pk if task else None, **wanted)

    def run(self, task: Task) -> Task:
        waiting = unpack_admissions(task.seeds)
        seen = {one.rid for one in waiting}
        self.outcomes = []
        while waiting:
            outcome, more = self.take(task, waiting.pop(0))
            for one in more:
                if one.rid not in seen:
                    seen.add(one.rid)
                    waiting.append(one)
            self.outcomes.append(outcome)
        return self.end(task, len(seen))

    def end(self, task: Task, admitted: int) -> Task:
        failed = sum(o.verdict is Verdict.ERROR for o in self.outcomes)
        counts = Counts("running", admitted, admitted - failed, failed, 0, 0, 0, 0, 0)
        assert self.ledger.tasks.finish({task.pk: counts}) == {task.pk}
        self.frontier.store.redis.flushdb()  # it has nothing else
        task.refresh_from_db()
        return task

    def take(self, task: Task, admission: Admission) -> tuple[Outcome, list[Admission]]:
        """Runs a request, and writes its outcome. Returns its follow-ups as well."""
        outcome, parts = self.outcome_of(task, admission)
        assert outcome.verdict.final, (outcome.verdict, outcome.reason, outcome.detail)
        Participants([SourceLinks(self.frontier, self.ledger)]).prepare([outcome])
        row = self.commit(outcome)
        return outcome, [*parts, *row]

    def outcome_of(self, task: Task, admission: Admission) -> tuple[Outcome, list[Admission]]:
        parts = _Parts(self.ledger)
        maker = CrawlMaker(Spiders(self.spider), HERE.deadline)

        async def main() -> Outcome:
            runner = RequestRunner(
                *(HERE, _Source(self.ledger, maker.make), self.version, self.web, Sieve()),
                lambda slot, rid: None,
                starts=StartRuns(parts),
                kept=_Pages(self.ledger),
            )
            one = admission
            claimed = Claimed(one.rid, task.pk, one.host, 9, 1, one.record, 0, 0, 0)
            return await runner.run(claimed, TaskView("running", 0))

        return asyncio.run(main()), parts.waiting

    def commit(self, outcome: Outcome) -> list[Admission]:
        """Commits as the commit thread does."""
        try:
            return self.ledger.commit([outcome])[outcome.rid].follow_ups
        except LedgerRefused as error:
            outcome.end(Verdict.ERROR, "refused", str(error))
            return self.ledger.commit([outcome])[outcome.rid].follow_ups
