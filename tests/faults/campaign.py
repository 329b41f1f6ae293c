"""Campaign: crawls of a known site while faults come by a seed, and what must hold after it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from django.db import Error as DatabaseError
from django.db import connection
from redis import RedisError

from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlservice.audit import audit, audit_cluster
from crawlservice.demosite import DemoServer
from crawlservice.models import Era, Event, Item, Page, Task
from tests.faults.cluster import Cluster
from tests.faults.kinds import KINDS

T = TypeVar("T")

SPIDER = "listings"
PATIENCE = 120.0  # seconds in which something must end
GAP = 0.6  # seconds between two faults, on average


class Campaign:
    """``seed`` decides which faults come and how far apart; a run of the same seed has the same
    faults, though not at the same instants of the crawl. ``struck``: how often each came."""

    def __init__(
        self, cluster: Cluster, demo: DemoServer, faults: int, tell: Callable[[str], None]
    ) -> None:
        self.struck: Counter[str] = Counter()
        self.tasks: list[int] = []
        self.eras = 0
        self._cluster = cluster
        self._demo = demo
        self._faults = faults
        self._tell = tell

    def run(self) -> list[str]:
        """All faults, one crawl after the other. Answers the violations."""
        self._frontier = self._patiently(
            lambda: Frontier.connect(self._cluster.redis, Settings(), follows=True)
        )
        self._until(lambda: SPIDER in self._frontier.spiders(), "no node published the spider")
        chance = self._cluster.chance
        kinds, weights = [*KINDS], [*KINDS.values()]
        while sum(self.struck.values()) < self._faults:
            if not self.tasks or self._ended(self.tasks[-1]):
                self._submit()
            time.sleep(chance.expovariate(1 / GAP))
            (fault,) = chance.choices(kinds, weights)
            fault(self._cluster)
            self.struck[fault.__name__] += 1
            self._cluster.heal()
        self._until(lambda: all(map(self._ended, self.tasks)), "a task does not end")
        self._until(lambda: not self._frontier.open_tasks(), "Redis does not forget a task")
        return [*self._violations()]

    def _submit(self) -> None:
        before = self._patiently(Task.objects.count)
        try:
            self._cluster.manage("submit", SPIDER, "-a", f"site={self._demo.url}")
        except RuntimeError as error:
            self._tell(str(error).strip().splitlines()[-1])
        newest = self._patiently(lambda: Task.objects.values_list("pk", flat=True).first())
        if self._patiently(Task.objects.count) > before and newest:
            self.tasks.append(newest)
            struck = sum(self.struck.values())
            self._tell(f"task {newest} after {struck} of {self._faults} faults")

    def _ended(self, pk: int) -> bool:
        return self._patiently(lambda: Task.objects.get(pk=pk).state not in Task.ACTIVE)

    def _until(self, ready: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._patiently(ready):
            if time.monotonic() > deadline:
                counts = [self._frontier.counts(pk) for pk in self.tasks]
                raise RuntimeError(f"{problem}: {counts}, {self._frontier.audit()}")
            self._cluster.heal()
            time.sleep(0.1)

    def _patiently(self, question: Callable[[], T]) -> T:
        """Asks again while a server is away."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return question()
            except (DatabaseError, RedisError, FrontierError, OSError):
                connection.close()
                if time.monotonic() > deadline:
                    raise
                self._cluster.heal()
                time.sleep(0.1)

    def _violations(self) -> Iterator[str]:
        self.eras = Era.objects.count()
        expected = {house["id"]: house for house in self._demo.site.expected_items()}
        pages = self._demo.site.crawl_pages() + 1
        for pk in self.tasks:
            task = Task.objects.get(pk=pk)
            yield from audit(task)
            if (task.state, task.na, task.nf, task.ne) != ("finished", pages, pages, 0):
                yield f"task {pk}: {task.state}, {task.na} {task.nf} {task.ne}, not {pages}"
            if Page.objects.filter(task=pk).count() != pages:
                yield f"task {pk}: {Page.objects.filter(task=pk).count()} rows"
            items = [*Item.objects.filter(task=pk).values_list("data", flat=True)]
            if len(items) != len(expected) or {item["id"]: item for item in items} != expected:
                yield f"task {pk}: {len(items)} items, or other ones than the {len(expected)}"
            if (ends := Event.objects.filter(task=pk).count()) != 1:
                yield f"task {pk} ended {ends} times"
        yield from audit_cluster(self._frontier)
        if codes := [code for code in self._cluster.stop() if code]:
            yield f"nodes ended with {codes}"
        time.sleep(0.5)
        yield from (f"left behind: {process}" for process in self._cluster.left())


def run(
    directory: Path,
    *,
    seed: int,
    faults: int,
    listings: int,
    nodes: int,
    workers: int,
    tell: Callable[[str], None],
) -> tuple[Campaign, list[str]]:
    """A whole campaign on servers of its own, and its violations."""
    from tests.conftest import django_on

    chance = random.Random(seed)
    with (
        DemoServer(listings, seed=seed, latency=40, error_rate=0.01) as demo,
        Cluster(directory, nodes, workers, chance) as cluster,
        django_on(cluster.database),
    ):
        campaign = Campaign(cluster, demo, faults, tell)
        return campaign, campaign.run()
