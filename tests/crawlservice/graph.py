"""A crawl without pages: a task whose requests follow a given graph, through the real frontier and
the real ledger, one step at a time."""

from __future__ import annotations

from collections import Counter

from crawlframe.frontier import Claimed, Completion, Frontier
from crawlframe.request.request import (
    END_URL,
    Admission,
    end_admission,
    end_rid,
    make_rid,
    pack_admissions,
)
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Item, Page, Task

ROOT = 0


class GraphCrawl:
    """Page n links to 2n+1, 2n+2 and n//3, below ``pages``; each page has two items; every seventh
    is an error, while the graph is ``broken``. ``runs`` counts the callbacks that ran."""

    broken = True

    def __init__(
        self,
        frontier: Frontier,
        pages: int = 60,
        page_limit: int = 0,
        *,
        ends: bool = False,
        host_page_limit: int = 0,
    ) -> None:
        """``ends``: the task has a last request."""
        self.pages = pages
        self.runs: Counter[bytes] = Counter()
        self.task = Task.objects.create(
            spider="graph",
            settings={
                "delay": 0,
                "robots": False,
                "concurrency": 1000,
                "page_limit": page_limit,
                "host_page_limit": host_page_limit,
            },
            seeds=b"",
            ends=ends,
        )
        last = [end_admission(self.task.pk)] if ends else []
        self.task.seeds = pack_admissions([self.admission(ROOT), *last])
        self.task.save()
        self._ledger = DjangoLedger()
        self._sequence = 0
        Reconciliation(self.task, frontier).run()

    def admission(self, page: int) -> Admission:
        name = str(page).encode()
        host = f"{page % 5}.example"
        return Admission(make_rid(self.task.pk, name), 0, host, 0, name)

    def fails(self, page: int) -> bool:
        return self.broken and page % 7 == 6

    def links(self, page: int) -> list[int]:
        return [link for link in (2 * page + 1, 2 * page + 2, page // 3) if link < self.pages]

    def claim(self, frontier: Frontier, n: int, generation: int = 1) -> list[Claimed]:
        self._sequence += 1
        return frontier.claim(generation, self._sequence, n).requests

    def commit(self, claimed: list[Claimed]) -> list[Completion]:
        """Runs the callbacks and writes their results; returns the completions for Redis."""
        outcomes = []
        for request in claimed:
            self.runs[request.rid] += 1
            if request.rid == end_rid(request.task):
                outcomes.append(self._last(request))
                continue
            page = int(request.record)
            outcome = Outcome(
                request.rid, request.task, request.host, request.record, 0, 0, url=f"/{page}"
            )
            if self.fails(page):
                outcome.end(Verdict.ERROR, "http_404")
            else:
                outcome.results.items = [b'{"page":%d}' % page, b"{}"]
                outcome.results.follow_ups = [self.admission(link) for link in self.links(page)]
            outcomes.append(outcome)
        recorded = self._ledger.commit(outcomes)
        return [
            Completion(o.rid, o.task, o.host, row.failed, row.follow_ups, items=row.items)
            for o in outcomes
            for row in [recorded[o.rid]]
        ]

    def _last(self, request: Claimed) -> Outcome:
        """The last request; checks that everything else has ended."""
        rows = Page.objects.filter(task=self.task).exclude(url=END_URL)
        assert {int(url[1:]) for url in rows.values_list("url", flat=True)} == self.closure()
        return Outcome(request.rid, request.task, request.host, request.record, 0, 0, url=END_URL)

    def work(self, frontier: Frontier, n: int, generation: int = 1) -> int:
        """Runs up to n requests, from the claim to the completion. Returns how many."""
        claimed = self.claim(frontier, n, generation)
        frontier.complete(self.commit(claimed))
        return len(claimed)

    def closure(self) -> set[int]:
        """The pages that a complete crawl reaches."""
        reached, waiting = set(), [ROOT]
        while waiting:
            page = waiting.pop()
            if page not in reached:
                reached.add(page)
                waiting += [] if self.fails(page) else self.links(page)
        return reached

    def check_end(self, frontier: Frontier) -> None:
        """Checks that every page has one row and its items, that the counters agree, and that each
        end has one event."""
        reached = self.closure()
        failed = {page for page in reached if self.fails(page)}
        counts = frontier.counts(self.task.pk)
        assert counts is not None
        numbers = (counts.na, counts.nf, counts.ne, counts.items)
        done, last = len(reached - failed), int(self.task.ends)
        assert numbers == (len(reached) + last, done + last, len(failed), 2 * done)
        assert frontier.audit() == []
        assert self._ledger.tasks.finish({self.task.pk: counts})
        frontier.close_tasks([self.task.pk])
        rows = Page.objects.filter(task=self.task).exclude(url=END_URL)
        assert {int(url[1:]) for url in rows.values_list("url", flat=True)} == reached
        assert rows.count() == len(reached)
        assert Item.objects.filter(task=self.task).count() == 2 * len(reached - failed)
        retries = Task.objects.get(pk=self.task.pk).retries
        assert Event.objects.filter(task=self.task).count() == 1 + retries
        assert frontier.open_tasks() == []
