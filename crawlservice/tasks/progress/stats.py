"""Stats: numbers that spiders count. Those of a page are in its row, and are added to its task's in
the transaction that writes the row; so each page counts once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import connection

from crawlframe.base.limits import UNFOLLOWED
from crawlframe.base.stats import DROPPED, MAX_NAMES, OTHER, PageStats
from crawlframe.items.encode import clean_text
from crawlframe.run.ledger import LedgerRefused
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant
from crawlservice.models import Page, Stat

COUNTER, MAXIMUM = Stat.Kind.COUNTER.value, Stat.Kind.MAXIMUM.value

ADD = f"""
INSERT INTO {Stat._meta.db_table} (task_id, kind, name, value) VALUES (%s, %s, %s, %s)
ON CONFLICT (task_id, kind, name) DO UPDATE SET value = CASE
    WHEN excluded.kind = 'counter' THEN {Stat._meta.db_table}.value + excluded.value
    WHEN excluded.value > {Stat._meta.db_table}.value THEN excluded.value
    ELSE {Stat._meta.db_table}.value END
"""

Name = tuple[str, str]  # kind and name


class TaskStats(NamedTuple):
    """Counts of a task's pages, by name; ``unfollowed``: links that were not followed, by
    reason."""

    counters: dict[str, int]
    maxima: dict[str, int | float]
    unfollowed: Mapping[str, int] = MappingProxyType({})


def of_tasks(tasks: Collection[int]) -> dict[int, TaskStats]:
    """The stats of those tasks that have any. Raises django.db.Error."""
    found: dict[int, TaskStats] = {}
    rows = Stat.objects.filter(task_id__in=tasks).order_by("task_id", "name")
    for task, kind, name, value in rows.values_list("task_id", "kind", "name", "value"):
        stats = found.setdefault(task, TaskStats({}, {}))
        if name.startswith(UNFOLLOWED):
            links = {**stats.unfollowed, name.removeprefix(UNFOLLOWED): int(value)}
            found[task] = stats._replace(unfollowed=links)
        elif kind == COUNTER:
            stats.counters[name] = int(value)
        else:
            stats.maxima[name] = int(value) if value.is_integer() else value
    return found


def of_task(task: int) -> TaskStats:
    """The stats of one task. Raises django.db.Error."""
    return of_tasks([task]).get(task, TaskStats({}, {}))


class StatsOfPages(Participant):
    """Adds the stats of pages to their tasks' stats."""

    takes = ("results.stats",)

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Fits new names into the room that their tasks have: reasons of dropped items are merged
        into one. Raises LedgerRefused for other names."""
        known: dict[int, set[Name]] = defaultdict(set)
        rows = Stat.objects.filter(task_id__in={outcome.task for outcome in outcomes})
        for task, kind, name in rows.values_list("task_id", "kind", "name"):
            known[task].add((kind, name))
        for outcome in outcomes:
            assert outcome.results.stats is not None
            outcome.results.stats = _fitted(outcome, outcome.results.stats, known[outcome.task])

    def write(self, outcomes: list[Outcome]) -> None:
        _write(
            _summed(
                (outcome.task, outcome.results.stats)
                for outcome in outcomes
                if outcome.results.stats
            )
        )


def _fitted(outcome: Outcome, stats: PageStats, known: set[Name]) -> PageStats:
    fitted = PageStats()
    for kind, name, value in _flat(stats):
        name = clean_text(name)
        room = len(known) < MAX_NAMES or name.startswith(UNFOLLOWED)
        if (kind, name) not in known and not room:
            if not name.startswith(DROPPED):
                raise LedgerRefused(
                    f"task {outcome.task} has {MAX_NAMES} names of stats, and {name!r} would be "
                    "one more; names are for kinds of things, not for single ones"
                )
            name = OTHER
        known.add((kind, name))
        if kind == COUNTER:
            fitted.inc(name, int(value))
        else:
            fitted.max(name, value)
    return fitted


def recount(task: int) -> None:
    """Computes a task's stats from its pages, after some were deleted; call it in that transaction.
    Raises django.db.Error."""
    Stat.objects.filter(task_id=task).delete()
    _write(_summed(_of_pages([task])))


def wrong(tasks: Collection[int]) -> Iterator[tuple[int, str]]:
    """Tasks whose stats differ from the sum of their pages', in words. Raises django.db.Error."""
    told = {
        (task, kind, name): value
        for task, kind, name, value in Stat.objects.filter(task_id__in=tasks)
        .order_by()
        .values_list("task_id", "kind", "name", "value")
    }
    found = _summed(_of_pages(tasks))
    for key in sorted(told.keys() | found.keys()):
        if told.get(key) != found.get(key):
            task, kind, name = key
            yield task, f"its {kind} {name} is {told.get(key)}, its pages have {found.get(key)}"


def as_json(stats: PageStats) -> dict[str, Any]:
    """The stats as stored in the row of a page."""
    return {"counters": stats.counters, "maxima": stats.maxima}


def _of_pages(tasks: Collection[int]) -> Iterator[tuple[int, PageStats]]:
    rows = Page.objects.filter(task_id__in=tasks, stats__isnull=False).order_by()
    for task, stats in rows.values_list("task_id", "stats").iterator(chunk_size=1000):
        yield task, PageStats(**(stats or {}))


def _summed(pages: Iterable[tuple[int, PageStats]]) -> dict[tuple[int, str, str], float]:
    sums: dict[int, PageStats] = defaultdict(PageStats)
    for task, stats in pages:
        for kind, name, value in _flat(stats):
            if kind == COUNTER:
                sums[task].inc(name, int(value))
            else:
                sums[task].max(name, value)
    return {
        (task, kind, name): float(value)
        for task, stats in sums.items()
        for kind, name, value in _flat(stats)
    }


def _flat(stats: PageStats) -> Iterator[tuple[str, str, int | float]]:
    yield from ((COUNTER, name, value) for name, value in stats.counters.items())
    yield from ((MAXIMUM, name, value) for name, value in stats.maxima.items())


def _write(sums: dict[tuple[int, str, str], float]) -> None:
    """Sorted, so that two processes that write some of the same cannot deadlock."""
    if sums:
        with connection.cursor() as cursor:
            cursor.executemany(ADD, [(*key, value) for key, value in sorted(sums.items())])
