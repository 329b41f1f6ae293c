"""Campaign: crawls of a known site during random faults, and the invariants afterwards."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import Max
from django.test.utils import override_settings
from redis import RedisError

from crawlframe.aliases.rule import AliasRule as Rule
from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.keys import KEYS, LASTING
from crawlservice.aliases.rules import key_of
from crawlservice.ledger.audit import audit, audit_cluster
from crawlservice.models import (
    AliasRule,
    Era,
    Event,
    Export,
    Item,
    KeptPage,
    Page,
    RowChange,
    Task,
    TaskLayer,
)
from crawlservice.pages.bodies import read
from tests.faults import grove
from tests.faults.cluster import Cluster
from tests.faults.kinds import KINDS, Fault
from tests.faults.maze import ALIASED, SESSION, Maze, MazeServer, number_of
from tests.faults.memory import Memory

T = TypeVar("T")

SPIDER = "maze"
PROGRESS_TIMEOUT = 120.0  # seconds within which something must progress
GAP = 0.5  # seconds between two faults, on average
# The first crawl, the third and so on are in layers, with filters that find nothing to leave out,
# and of a walk where each page has many URLs, which a rule of aliases says are equal.
FILTERED = {"layers": 100, "denoise": "template", "near_duplicates": "mark", "aliases": "true"}


class Campaign:
    """``seed`` decides which faults occur and how far apart; a run with the same seed has the same
    faults, though not at the same moments of the crawl. ``struck``: how often each occurred."""

    def __init__(
        self, cluster: Cluster, site: MazeServer, faults: int, tell: Callable[[str], None]
    ) -> None:
        self.struck: Counter[str] = Counter()
        self.tasks: list[int] = []
        self.eras = 0
        self.memory = Memory(cluster)
        self._cluster = cluster
        self._site = site
        self._faults = faults
        self._tell = tell

    def run(self) -> list[str]:
        """Runs all faults, one crawl after the other. Returns the violations."""
        settings = Settings(partitions=self._cluster.partitions)
        self._frontier = self._patiently(
            lambda: Frontier.connect(self._cluster.redis, settings, follows=True)
        )
        self._until(lambda: SPIDER in self._frontier.spiders.all(), "no node published the spider")
        self._learn()
        for fault in self._deck():
            if not self.tasks or self._ended(self.tasks[-1]):
                self._submit()
            time.sleep(self._cluster.chance.expovariate(1 / GAP))
            fault(self._cluster)
            self.struck[fault.__name__] += 1
            self._cluster.heal()
            self.memory.look()
        self._until(lambda: all(map(self._ended, self.tasks)), "a task does not end")
        self._until(lambda: not self._frontier.open_tasks(), "Redis does not forget a task")
        self._until(self._all_exported, "the export does not end")
        return [*self._violations()]

    def _deck(self) -> list[Fault]:
        """The faults in their order: as many of each kind as KINDS says for a whole campaign."""
        deck = [kind for kind, times in KINDS.items() for _ in range(times)]
        self._cluster.chance.shuffle(deck)
        return (deck * (1 + self._faults // len(deck)))[: self._faults]

    def _submit(self) -> None:
        before = self._patiently(Task.objects.count)
        try:
            filters = {} if len(self.tasks) % 2 else FILTERED
            walk = f"site={self._site.url}/{before}{ALIASED if filters else ''}"
            chosen = [part for name, value in filters.items() for part in ("-s", f"{name}={value}")]
            self._cluster.manage("submit", SPIDER, "-a", walk, *chosen)
        except RuntimeError as error:
            self._tell(str(error).strip().splitlines()[-1])
        newest = self._patiently(lambda: Task.objects.values_list("pk", flat=True).first())
        if self._patiently(Task.objects.count) > before and newest:
            self.tasks.append(newest)
            struck = sum(self.struck.values())
            self._tell(f"crawl {len(self.tasks)} after {struck} of {self._faults} faults")

    def _learn(self) -> None:
        """A rule of aliases as it would be learned and verified."""
        rule = Rule(self._site.url, "query", (SESSION,), places=frozenset({f"0{ALIASED}?"}))
        stored = msgspec.to_builtins(rule) | {"places": [*rule.places]}
        AliasRule.objects.create(
            origin=rule.origin, kind=rule.kind, rule=stored, key=key_of(rule),
            state=AliasRule.State.VERIFIED,
        )  # fmt: skip

    def _ended(self, pk: int) -> bool:
        return self._patiently(lambda: Task.objects.get(pk=pk).state not in Task.ACTIVE)

    def _until(self, ready: Callable[[], bool], problem: str) -> None:
        last: Any = None
        while not self._patiently(ready):
            counts = self._patiently(lambda: [self._frontier.counts(pk) for pk in self.tasks])
            if last != counts:
                last, deadline = counts, time.monotonic() + PROGRESS_TIMEOUT
            if time.monotonic() > deadline:
                raise RuntimeError(f"{problem}: {counts}, {self._frontier.audit()}")
            self._cluster.heal()
            time.sleep(0.1)

    def _patiently(self, question: Callable[[], T]) -> T:
        """Asks again while a server is unreachable."""
        deadline = time.monotonic() + PROGRESS_TIMEOUT
        while True:
            try:
                return question()
            except (DatabaseError, RedisError, FrontierError, OSError):
                connection.close()
                if time.monotonic() > deadline:
                    raise
                self._cluster.heal()
                time.sleep(0.1)

    @property
    def lost(self) -> str:
        """The number of answers that did not arrive."""
        redis, postgres = self._cluster.redis_proxy.lost, self._cluster.postgres_proxy.lost
        return f"{redis} answers of Redis and {postgres} of PostgreSQL were lost"

    # -- invariants -------------------------------------------------------------------------------

    def _violations(self) -> Iterator[str]:
        self.eras = Era.objects.count()
        maze = self._site.maze
        expected, gone = maze.items(), maze.gone()
        ends = (maze.pages + gone + 1, maze.pages + 1, gone)  # the first is the start of the task
        for pk in self.tasks:
            task = Task.objects.get(pk=pk)
            yield from audit(task)
            if (task.state, task.na, task.nf, task.ne) != ("finished", *ends):
                yield f"task {pk}: {task.state}, {task.na} {task.nf} {task.ne}, not {ends}"
            if Page.objects.filter(task=pk).count() != ends[0]:
                yield f"task {pk}: {Page.objects.filter(task=pk).count()} rows, not {ends[0]}"
            items = [*Item.objects.filter(task=pk, model="").values_list("data", flat=True)]
            if len(items) != len(expected) or {item["page"]: item for item in items} != expected:
                yield f"task {pk}: {len(items)} items, or other ones than the {len(expected)}"
            yield from self._wrong_rows(task)
            yield from self._wrong_pages(task)
            yield from self._wrong_layers(task)
            if (told := Event.objects.filter(task=pk).exclude(kind="quality_failed").count()) != 1:
                yield f"task {pk} ended {told} times"
        yield from self._wrong_exports()
        yield from audit_cluster(self._frontier)
        yield from (f"left in Redis: {key}" for key in self._kept())
        yield from self.memory.violations()
        if codes := [code for code in self._cluster.stop() if code]:
            yield f"nodes ended with {codes}"
        time.sleep(0.5)
        yield from (f"left behind: {process}" for process in self._cluster.left())
        yield from (f"left behind: {path}" for path in self._cluster.temporary.iterdir())

    def _all_exported(self) -> bool:
        last = Item.objects.aggregate(last=Max("pk"))["last"]
        return Export.objects.filter(position__gte=last, planned=None).exists()

    def _wrong_exports(self) -> Iterator[str]:
        """The differences in the files of the exports of all items, in their order."""
        files = [*self._cluster.exported.rglob("*.jsonl")]
        rows = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
        exported = {row["_item"]: (row["_request"], row["_position"]) for row in rows}
        stored = Item.objects.values_list("pk", "rid", "ordinal")
        if exported != {pk: (rid.hex, ordinal) for pk, rid, ordinal in stored}:
            yield f"{len(exported)} items were exported, or other ones than {len(stored)}"
        if len(rows) != len(exported):
            yield f"{len(rows) - len(exported)} items were exported again"

    def _wrong_pages(self, task: Task) -> Iterator[str]:
        """The differences in the kept pages."""
        maze, last = self._site.maze, 0
        walk = task.arguments["site"].rpartition("/")[2]
        found: Counter[int] = Counter()
        rows = KeptPage.objects.filter(task=task, reason="").order_by("pk")
        while some := [*rows.filter(pk__gt=last).values_list("pk", "url", "body")[:500]]:
            last = some[-1][0]
            bodies = read({body for _, _, body in some})
            for _, url, body in some:
                number = number_of(url)
                found[number] += bodies[body] == maze.page(number).html(walk)
        if found != Counter(range(maze.pages)):
            right = sum(found.values())
            yield f"task {task.pk}: {len(found)} pages are kept, {right} right, of {maze.pages}"

    def _wrong_layers(self, task: Task) -> Iterator[str]:
        """Mistakes in the depths of a task: each page belongs to the layer of its distance."""
        if "layers" not in task.settings:
            return
        rows = Page.objects.filter(task=task, url__contains="/page/").values_list("url", "depth")
        found = {number_of(url): depth for url, depth in rows.iterator()}
        distances = self._site.maze.distances()
        if found != distances:
            wrong = sum(found.get(page) != depth for page, depth in distances.items())
            yield f"task {task.pk}: {wrong} of {len(distances)} pages are in the wrong layer"
        kept = [*TaskLayer.objects.filter(task=task).order_by("number")]
        last = max(distances.values())
        if [layer.number for layer in kept] not in ([*range(last)], [*range(last + 1)]):
            yield f"task {task.pk}: {kept} were recorded, of {last + 1} layers"

    def _wrong_rows(self, task: Task) -> Iterator[str]:
        """The differences in the tables of the team's app."""
        site, pages = task.arguments["site"], self._site.maze.items()
        words = {page["word"] for page in pages.values()}
        leaves = grove.leaves(site)
        if leaves != sorted((page["page"], page["word"]) for page in pages.values()):
            yield f"task {task.pk}: {len(leaves)} rows inserted, or other ones than {len(pages)}"
        last = task.pk == self.tasks[-1]
        if sorted(grove.words(site)) != (sorted(words) if last else []):
            yield f"task {task.pk}: the rows that name its site are not those it found last"
        changes = RowChange.objects.filter(task=task.pk).count()
        if changes != (0 if task.pk == self.tasks[0] else len(words)):
            yield f"task {task.pk}: {changes} changes of {len(words)} rows were recorded"

    def _kept(self) -> Iterator[str]:
        """Keys of ended tasks that are left in Redis."""
        lasting = {KEYS[name][0].partition(":")[0] for name in LASTING} | {"hungry", "batch"}
        for keys in self._frontier.store.keys:
            for key in self._frontier.store.redis.scan_iter(match=f"{keys.tag}*", count=1000):
                kind = key.decode().removeprefix(keys.tag).partition(":")[0]
                if kind not in lasting and self._frontier.store.redis.ttl(key) == -1:
                    yield key.decode()


def run(
    directory: Path,
    *,
    seed: int,
    faults: int,
    pages: int,
    nodes: int,
    workers: int,
    partitions: int,
    slowest: float,
    tell: Callable[[str], None],
) -> tuple[Campaign, list[str]]:
    """Runs a whole campaign on servers of its own; returns it and its violations. ``slowest``: most
    seconds that a page of the site takes."""
    from tests.conftest import django_on

    chance = random.Random(seed)
    # Bodies of pages are in the database, or in segments.
    kept = {"CRAWLFRAME_PAGES": str(directory / "pages")} if seed % 2 else {}
    with (
        MazeServer(Maze(pages, seed, slowest)) as site,
        Cluster(directory, nodes, workers, chance, partitions, variables=kept) as cluster,
        django_on(cluster.database),
        override_settings(
            CRAWLFRAME=replace(settings.CRAWLFRAME, pages=kept.get("CRAWLFRAME_PAGES", ""))
        ),
    ):
        campaign = Campaign(cluster, site, faults, tell)
        return campaign, campaign.run()
