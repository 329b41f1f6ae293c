"""TaskSummary: the outcomes of a task's requests. Only its latest rows are counted: counting
millions takes seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from redis import RedisError

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.render.knowledge import Knowledge
from crawlframe.render.template import URLTemplate
from crawlframe.run.outcome import NO_ERRORS
from crawlservice.accounts.journal import record
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.models import Action, Item, Page, Task, Trap
from crawlservice.tasks.progress.budgets import Stop, stops, traps_of
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.progress.stats import TaskStats, of_tasks
from crawlservice.tasks.results.task_rows import of_task

RUNS = 20  # earlier runs that are shown
SLACK = 30  # earlier runs that one query reads beyond those of the tasks themselves
# Outcomes of runs with which others are compared: not cancelled ones, which could not finish.
COMPARED = (*Task.COMPLETED, Task.Outcome.FAILED)
MAX_ROWS = 10_000  # ledger rows
REASONS = 20  # most reasons shown
PREVIEW = 10  # items, and entries of the journal


class Reason(NamedTuple):
    """The errors with one reason, and the latest of them."""

    reason: str
    errors: int
    example: Page | None


class TaskSummary(NamedTuple):
    """``errors``: how many were examined, by reason in ``reasons``; ``pages``: the same, by HTTP
    status in ``statuses`` (None: no answer), the most frequent first. Neither includes cancelled
    or excluded requests. ``counted``: the spider's counters, then its maxima. ``stops``: what
    stopped links. ``parked``: requests by the reason why they wait; also empty if there are more
    than MAX_ROWS, or Redis is unreachable."""

    errors: int
    reasons: list[Reason]
    pages: int
    statuses: list[tuple[int | None, int]]
    parked: list[tuple[str, int]]
    counted: list[tuple[str, int | float]]
    stops: list[Stop]
    traps: list[Trap]
    items: list[Item]
    journal: list[Action]


def summarize(task: Task) -> TaskSummary:
    """The current summary, with a fixed number of queries."""
    rows = of_task(Page.objects.exclude(reason__in=NO_ERRORS), task.pk, newest=True)
    errors = [*rows.filter(state=Page.State.ERROR).values_list("reason", "pk")[:MAX_ROWS]]
    counted = Counter(reason for reason, _ in errors).most_common(REASONS)
    latest = dict(reversed(errors))  # keeps the first of each reason
    shown = Page.objects.only("url", "detail", "reason", "status").in_bulk(
        [latest[reason] for reason, _ in counted]
    )
    statuses = Counter(rows.values_list("status", flat=True)[:MAX_ROWS])
    stats = of_tasks([task.pk]).get(task.pk, TaskStats({}, {}))
    return TaskSummary(
        len(errors),
        [Reason(reason, n, shown.get(latest[reason])) for reason, n in counted],
        statuses.total(),
        statuses.most_common(),
        _parked(task).most_common(REASONS),
        [*stats.counters.items(), *stats.maxima.items()],
        stops(read([task])[0], stats),
        traps_of([task.pk]).get(task.pk, []),
        [*of_task(Item.objects.all(), task.pk, newest=True)[:PREVIEW]],
        [*Action.objects.filter(task=task).select_related("user", "token")[:PREVIEW]],
    )


def _parked(task: Task) -> Counter[str]:
    if task.state not in Task.ACTIVE:
        return Counter()
    try:
        counts = frontier().counts(task.pk)
        if counts is None or not 0 < counts.parked <= MAX_ROWS:
            return Counter()
        return Counter(frontier().parked(task.pk).values())
    except (RedisError, CrawlframeError):
        return Counter()


@dataclass(frozen=True)
class Past:
    """An earlier run."""

    task: int
    items: int
    errors: int
    arguments: int | None  # their hash


@dataclass(frozen=True)
class RunHistory:
    """``before``: the last run of the same spider, with the same arguments if one of the last RUNS
    had these; ``same``: whether it had. ``items``: those of the last runs, the oldest first, and
    of the task itself if it has ended."""

    before: Past | None = None
    same: bool = False
    items: list[int] = field(default_factory=list)


def histories(tasks: Iterable[Task]) -> dict[int, RunHistory]:
    """The history of each task. One query for each spider, if its tasks are near each other."""
    of_spider: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        of_spider[task.spider].append(task)
    found: dict[int, RunHistory] = {}
    for spider, group in of_spider.items():
        newest = max(task.pk for task in group)
        size = len(group) + RUNS + SLACK
        past = _past(spider, newest, size)
        for task in group:
            before = [run for run in past if run.task < task.pk][:RUNS]
            if len(before) < RUNS and len(past) == size:
                before = _past(spider, task.pk, RUNS)
            found[task.pk] = _history(task, before)
    return found


def _past(spider: str, before: int, count: int) -> list[Past]:
    """The runs before that task, the latest first."""
    rows = Task.objects.filter(spider=spider, pk__lt=before, outcome__in=COMPARED)
    rows = rows.filter(reparse__isnull=True, watch=None).order_by("-pk")
    columns = ("pk", "items", "ne", "cancelled", "excluded", "arguments_hash")
    return [
        Past(pk, items, ne - cancelled - excluded, hash_)
        for pk, items, ne, cancelled, excluded, hash_ in rows.values_list(*columns)[:count]
    ]


def _history(task: Task, before: list[Past]) -> RunHistory:
    same = [run for run in before if run.arguments == task.arguments_hash]
    last = next(iter(same or before), None)
    items = [run.items for run in reversed(before)]
    if task.state not in Task.ACTIVE:
        items.append(task.items)
    return RunHistory(last, bool(same), items)


class TemplateNow(NamedTuple):
    """One template of a callback."""

    template: URLTemplate
    known: Knowledge

    @property
    def key(self) -> str:
        """Names it in forms."""
        return " ".join(self.template)

    @property
    def pages(self) -> int:
        return self.known.static + self.known.browser

    @property
    def share(self) -> int:
        """Per cent of its pages that were rendered."""
        return round(100 * self.known.browser / max(1, self.pages))

    @property
    def since(self) -> datetime:
        return datetime.fromtimestamp(self.known.since / 1000, UTC)


def templates(spider: str) -> list[TemplateNow] | None:
    """What is known of a spider, the templates with the most pages first; None: Redis does not
    answer."""
    now = round(1000 * clock.now().timestamp())
    try:
        found = frontier().renders.of(spider)
    except (RedisError, CrawlframeError):
        return None
    known = [TemplateNow(template, one) for template, one in found.items() if one.at(now) == one]
    return sorted(known, key=lambda one: (-one.pages, one.template))


def forget(spider: str, key: str, who: dict[str, Any]) -> None:
    """Forgets what is known of a template, so that its next pages are fetched plainly first;
    without a key, of all. ``who``: as for ``journal.record``. Raises
    CrawlframeError."""
    callback, _, form = key.partition(" ")
    if key and not form:
        raise ArgumentError(f"{key!r:.100} is not a template; it is a callback and a form of URLs")
    try:
        frontier().renders.forget(spider, URLTemplate(callback, form) if key else None)
    except RedisError as error:
        raise CrawlframeError(f"Redis does not answer: {error}") from None
    record("forget rendering", **who, spider=spider, template=key)
