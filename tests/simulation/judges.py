"""Judges: the promises of the design, as code. They look at the database, Redis and the simulated
web, not at the product's own reports, except where a promise is about these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from crawlframe.frontier import Frontier
from crawlservice.connections.frontier import frontier
from crawlservice.ledger.audit import audit_cluster, audit_group
from crawlservice.models import Event, Item, Page, Task
from tests.simulation.orders import Pace
from tests.simulation.site import UNAWARE, Web, closure, url_of
from tests.simulation.site import Page as SitePage

START = "start:"  # the URL of the request that runs start
# Reasons for which a good page may end as an error.
FAIR = ("connection_lost", "timeout", "poison", "cancelled")
ENDED = (Task.State.FINISHED, Task.State.CANCELLED)
ENDS = (Event.Kind.FINISHED, Event.Kind.FAILED, Event.Kind.CANCELLED)


def judge_task(task: Task, start: str) -> Iterator[str]:
    """Violations of an ended task. ``start``: its first URL."""
    expected = closure(start)
    rows: defaultdict[str, list[Page]] = defaultdict(list)
    for row in Page.objects.filter(task=task):
        rows[row.url].append(row)
    yield from _rows(task, expected, rows)
    items = Counter(Item.objects.filter(task=task).values_list("rid", flat=True))
    for url, page in expected.items():
        for row in rows.get(url, ()):
            good = row.state == Page.State.DONE
            wanted = page.items if good else 0
            if items.pop(row.rid, 0) != wanted:
                yield f"task {task.pk}: {url} has not the {wanted} items of one run"
            if good != (page.kind == "good") and not (page.kind == "good" and row.reason in FAIR):
                said = f"{row.state} {row.reason}"
                yield f"task {task.pk}: {url} is {page.kind}, and its row says {said}"
    if items:
        yield f"task {task.pk}: {sum(items.values())} items belong to no row of a page"
    ends = Event.objects.filter(kind__in=ENDS, task=task).count()
    if ends != 1:
        yield f"task {task.pk} has {ends} events of its end"


def _rows(task: Task, expected: dict[str, SitePage], rows: dict[str, list[Page]]) -> Iterator[str]:
    lost = {url for url, found in rows.items() if any(
        row.state != Page.State.DONE and expected[url].kind == "good"
        for row in found if url in expected
    )}  # fmt: skip
    reachable = closure(next(iter(expected)), lost)
    limit = task.overrides.get("page_limit", 0)
    admitted = sum(len(found) for url, found in rows.items() if url != START)
    partitions = frontier().store.partitions
    limit = (limit + 1) * partitions - 1 if limit else 0  # in each, with room for START
    if limit and admitted > limit:
        yield f"task {task.pk} has {admitted} rows, its page limit is {limit}"
    full = limit > 0 and (partitions > 1 or admitted == limit)
    cut = task.state == Task.State.CANCELLED or full
    for url in expected:
        number = len(rows.get(url, ()))
        if number > 1:
            yield f"task {task.pk}: {url} has {number} rows"
        if number == 0 and url in reachable and not cut:
            yield f"task {task.pk}: {url} was admitted and has no row"
    for url in rows.keys() - expected.keys():
        if url != START:
            yield f"task {task.pk}: a row of {url}, which no page links to"


def judge_database() -> Iterator[str]:
    """Violations of all tasks, and of Redis."""
    tasks = {task.pk: task for task in Task.objects.all()}
    for task in tasks.values():
        if task.state not in ENDED:
            yield f"task {task.pk} has not ended: {task.state}, {_counts(frontier(), task.pk)}"
        else:
            yield from judge_task(task, url_of(0, **task.arguments))
    ended = [task for task in tasks.values() if task.state in ENDED]
    for pk, problems in audit_group(ended).items():
        for problem in problems:
            yield f"audit of task {pk}: {problem}"
    for problem in audit_cluster(frontier()):
        yield f"audit of Redis: {problem}"


def _counts(of: Frontier, task: int) -> str:
    counts = of.counts(task)
    return f"{counts}, waits {counts and of.waits.of({task: counts})}"


def judge_web(web: Web, pace: Pace, *, explained: int) -> Iterator[str]:
    """Violations that the sites saw. ``explained``: second fetches that faults may have caused."""
    sent: defaultdict[str, list[float]] = defaultdict(list)
    open_: defaultdict[str, list[float]] = defaultdict(list)  # when the answers are complete
    for visit in web.fetches:
        ends = open_[visit.host] = [end for end in open_[visit.host] if end > visit.begun]
        lost = any(visit.begun - UNAWARE < loss < visit.ends for loss in web.losses)
        if visit.counts and not lost:
            ends.append(visit.ends)
            sent[visit.host].append(visit.begun)
        if len(ends) > pace.concurrency:
            many = f"{len(ends)} requests at a time, {pace.concurrency} are allowed"
            yield f"at {visit.begun:.1f} s: {visit.host} had {many}"
    delay = 0.0 if isinstance(pace.delay, str) else pace.delay
    for host, times in sent.items():
        shortest = min((after - before for before, after in pairwise(times)), default=delay)
        if shortest < delay - 0.00001:
            yield f"{host} had two requests within {shortest:.3f} s, {delay} s is the least"
    again = sum(count - 1 for count in web.times.values())
    if again > explained:
        yield f"{again} fetches were repeated, {explained} can be explained"
