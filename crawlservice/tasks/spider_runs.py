"""Spiders over all their runs: spiders that nodes publish, and spiders that only have tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.spider.spider import SpiderInfo
from crawlservice.models import DisabledSpider, Page, Profile, Task
from crawlservice.tasks import spider_switch
from crawlservice.tasks.results.task_rows import of_task
from crawlservice.tasks.submit import published_spiders, spiders

MAX_SPIDERS = 1_000  # spiders
RUNS = 40  # latest runs of a spider that are shown
FIELDS = 5  # fields whose coverage is shown
OF_END = (
    "outcome", "created_at", "finished_at", "nf", "ne", "cancelled", "excluded", "items",
)  # fmt: skip
VERSION_PAGES = 5  # latest pages of a run, enough for one to know its code version
TASK = Task._meta.db_table
GOOD = (Task.Outcome.FINISHED, Task.Outcome.FINISHED_WITH_ERRORS)

# Steps from one name to the next by the index: there may be a million tasks.
NAMED = f"""
WITH RECURSIVE named(spider) AS (
    SELECT min(spider) FROM {TASK}
    UNION ALL
    SELECT (SELECT min(spider) FROM {TASK} WHERE spider > named.spider)
    FROM named WHERE named.spider IS NOT NULL
)
SELECT spider, {{}} FROM named WHERE spider IS NOT NULL LIMIT {MAX_SPIDERS}
"""
LAST = NAMED.format(f"(SELECT max(id) FROM {TASK} task WHERE task.spider = named.spider)")
ENDED = NAMED.format(
    ", ".join(
        f"(SELECT max(id) FROM {TASK} task WHERE task.spider = named.spider"
        f" AND task.outcome = '{outcome}' AND task.reparse IS NULL)"
        for outcome in Task.Outcome.values
    )
)


class SpiderNow(NamedTuple):
    """``info``: as nodes or a recipe publish it now; None: none does, or Redis is unreachable.
    ``last``: its latest task."""

    name: str
    info: SpiderInfo | None
    disabled: DisabledSpider | None
    last: Task | None


class LastEnds(NamedTuple):
    """``last``: the latest task that has ended; ``good``: the latest that finished."""

    last: Task
    good: Task | None


@dataclass(frozen=True)
class SpiderRun:
    """One task of a spider. ``seconds``: from submission to the end, None while it runs.
    ``version``: of the code that made its latest page. ``items_change`` and ``errors_change``:
    against the run before it, None for the first run and for a running one. ``coverage``: field ->
    share of items with a value."""

    task: int
    status: str
    reason: str
    at: datetime
    seconds: float | None
    pages: int
    items: int
    errors: int
    version: str
    items_change: int | None = None
    errors_change: int | None = None
    coverage: Mapping[str, float] = field(default_factory=dict)


class Spiders(NamedTuple):
    """``complete``: with the spiders that nodes publish in Redis."""

    found: list[SpiderNow]
    complete: bool


def overview() -> Spiders:
    """All spiders, by name: published ones, recipes, those with tasks and those disabled."""
    try:
        infos, complete = spiders(), True
    except (RedisError, CrawlframeError):
        infos, complete = {}, False
    last, off = last_tasks(), spider_switch.disabled()
    names = sorted(infos.keys() | last.keys() | off.keys())
    found = [SpiderNow(name, infos.get(name), off.get(name), last.get(name)) for name in names]
    return Spiders(found, complete)


def look_up(name: str) -> SpiderNow | None:
    """One spider; None: unknown."""
    try:
        info = spiders().get(name)
        known = info is not None or name in published_spiders()
    except (RedisError, CrawlframeError):
        info, known = None, False
    off = spider_switch.find(name)
    runs = Task.objects.filter(spider=name, reparse__isnull=True).defer("seeds")
    last = runs.order_by("-pk").first()
    if not known and off is None and last is None:
        return None
    return SpiderNow(name, info, off, last)


def last_tasks() -> dict[str, Task]:
    """The latest task of each spider that has any."""
    with connection.cursor() as cursor:
        cursor.execute(LAST)
        numbers: dict[str, int] = dict(cursor.fetchall())
    tasks = Task.objects.defer("seeds", "arguments").in_bulk([*numbers.values()])
    return {spider: tasks[pk] for spider, pk in numbers.items() if pk in tasks}


def last_ends() -> dict[str, LastEnds]:
    """The latest ended runs of each spider that has any, of the first MAX_SPIDERS by name."""
    with connection.cursor() as cursor:
        cursor.execute(ENDED)
        rows = cursor.fetchall()
    numbers = {
        spider: {outcome: pk for outcome, pk in zip(Task.Outcome.values, found, strict=True) if pk}
        for spider, *found in rows
    }
    wanted = {pk for found in numbers.values() for pk in found.values()}
    tasks = Task.objects.only(*OF_END).in_bulk(wanted)
    ends = {}
    for spider, found in numbers.items():
        known = [tasks[pk] for pk in sorted(found.values()) if pk in tasks]
        if known:
            good = [task for task in known if task.outcome in GOOD]
            ends[spider] = LastEnds(known[-1], good[-1] if good else None)
    return ends


def runs(spider: str, count: int = RUNS) -> list[SpiderRun]:
    """The latest runs of a spider, the latest first."""
    rows = Task.objects.filter(spider=spider, reparse__isnull=True, watch=None)
    rows = rows.defer("seeds", "arguments").order_by("-pk")
    tasks = [*rows[: count + 1]]
    covered = dict(Profile.objects.filter(task__in=tasks).values_list("task", "coverage"))
    found: list[SpiderRun] = []
    before: SpiderRun | None = None
    for task in reversed(tasks):
        ended = task.finished_at is not None and task.state not in Task.ACTIVE
        compared = before if ended else None
        run = SpiderRun(
            task=task.pk,
            status=task.status,
            reason=task.reason,
            at=task.created_at,
            seconds=(task.finished_at - task.created_at).total_seconds()
            if ended and task.finished_at
            else None,
            pages=task.nf + task.errors,
            items=task.items,
            errors=task.errors,
            version=_version(task.pk),
            items_change=task.items - compared.items if compared else None,
            errors_change=task.errors - compared.errors if compared else None,
            coverage=covered.get(task.pk, {}),
        )
        if run.seconds is not None:
            before = run
        found.append(run)
    return found[::-1][:count]


def _version(task: int) -> str:
    latest = of_task(Page.objects.all(), task, newest=True).values_list("version", flat=True)
    return next(filter(None, latest[:VERSION_PAGES]), "")


def covered_fields(found: Sequence[SpiderRun]) -> list[str]:
    """The fields whose coverage says most: which differs most between ended runs, or is lowest."""
    ended = [run.coverage for run in found if run.seconds is not None and run.coverage]
    names = {name for coverage in ended for name in coverage}

    def rank(name: str) -> tuple[float, float, str]:
        shares = [coverage.get(name, 0.0) for coverage in ended]
        return min(shares) - max(shares), min(shares), name

    return sorted(names, key=rank)[:FIELDS]


def coverage_series(name: str) -> str:
    """Under which a chart has the coverage of a field."""
    return f"coverage {name.replace('|', '/')}"  # a bar separates the series of a chart


def points(found: Sequence[SpiderRun]) -> dict[str, list[Any]]:
    """Ended runs for a chart, the oldest first: when each was submitted (Unix milliseconds), its
    numbers, ``coverage NAME`` of the fields that say most, in percent (None in a run without
    items), and ``marks``: where another code version began."""
    chart: dict[str, list[Any]] = {
        name: [] for name in ("at", "items", "errors", "seconds", "pages", "task", "status")
    }
    chart["marks"] = []
    fields = covered_fields(found)
    chart |= {coverage_series(name): [] for name in fields}
    version = None
    for run in reversed(found):
        if run.seconds is None:
            continue
        at = round(run.at.timestamp() * 1000)
        chart["at"].append(at)
        for name in ("items", "errors", "pages", "task", "status"):
            chart[name].append(getattr(run, name))
        chart["seconds"].append(round(run.seconds, 1))
        for name in fields:
            # A field that no item has is not in the profile.
            share = run.coverage.get(name, 0.0) if run.coverage else None
            chart[coverage_series(name)].append(None if share is None else round(100 * share, 1))
        if run.version and run.version != version:
            chart["marks"].append({"at": at, "label": run.version})
            version = run.version
    return chart
