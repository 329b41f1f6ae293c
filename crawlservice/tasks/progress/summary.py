"""TaskSummary: the outcomes of a task's requests. Only its latest rows are counted: counting
millions takes seconds."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.run.outcome import NO_ERRORS
from crawlservice.connections.frontier import frontier
from crawlservice.models import Action, Item, Page, Task, Trap
from crawlservice.tasks.progress.budgets import Stop, stops, traps_of
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.progress.stats import TaskStats, of_tasks
from crawlservice.tasks.results.task_rows import of_task

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
