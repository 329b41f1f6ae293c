"""Audit: does the ledger agree with itself, with the items and with the task's counters?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, pairwise
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from crawlframe.frontier import Frontier
from crawlframe.outcome import CANCELLED
from crawlframe.request import unpack_admissions
from crawlservice.era import newest
from crawlservice.models import Event, Generation, Item, Page, Task

ENDS = (Task.State.FINISHED, Task.State.CANCELLED)
PART = 1_000_000  # ledger rows whose rids are held in memory at a time
NAMED = 10  # offending requests named per problem
CHUNK = 1000  # rows read at a time


def audit_cluster(frontier: Frontier) -> list[str]:
    """Every way in which Redis breaks the promise at this instant, all tasks together: counters and
    queues, holders, generations and eras."""
    problems = frontier.audit()
    last = Generation.objects.values_list("pk", flat=True).first() or 0
    ahead = sorted(number for number in frontier.leases.left() if number > last)
    if ahead:
        problems.append(f"generations that the database never gave: {ahead}")
    open_tasks = frontier.open_tasks()
    there = Task.objects.filter(pk__in=open_tasks).values_list("pk", flat=True)
    if unknown := sorted({*open_tasks} - {*there}):
        problems.append(f"requests of tasks that the database does not know: {unknown}")
    era = newest()
    problems += [
        f"Redis holds era {number}, the database knows none after {era}"
        for number in sorted({number for number, _ in frontier.eras.read() if number > era})
    ]
    return problems


def audit(task: Task) -> list[str]:
    """Every way in which a task breaks the promise, in plain words; empty is good.

    What must hold at every instant is looked at in one statement each, so a running task may be
    audited too; counters are compared once it has ended and all its rows are written."""
    problems = [*_items_and_pages(task), *_other_runs(task), *_orphans(task), *_ends(task)]
    if task.state not in Task.ACTIVE and task.unwritten is None:
        problems += [*_counters(task), *_closure(task)]
    return [f"task {task.pk}: {problem}" for problem in problems]


def _items_and_pages(task: Task) -> Iterator[str]:
    """Items are those of exactly one run of each callback: all or none."""
    stored = (
        # Not by task too: a rid is of one task, and SQLite would walk all its items per page.
        Item.objects.filter(rid=OuterRef("rid"))
        .order_by()
        .values("rid")
        .annotate(n=Count("pk"))
        .values("n")
    )
    pages = (
        Page.objects.filter(task=task)
        .annotate(stored=Coalesce(Subquery(stored), 0))
        .exclude(stored=F("items"))
        .order_by("id")
        .values_list("rid", "items", "stored")
    )
    wrong = [f"{rid} has {stored} of {items}" for rid, items, stored in pages[: NAMED + 1]]
    yield from _report("pages whose items are not all there, or too many", wrong)


def _other_runs(task: Task) -> Iterator[str]:
    """Items whose version or place is not that of the run that the ledger tells of."""
    row = Page.objects.filter(rid=OuterRef("rid"))
    run = row.filter(version=OuterRef("version"), items__gt=OuterRef("ordinal"))
    items = Item.objects.filter(Exists(row), ~Exists(run), task=task).order_by("id")
    rids = [str(rid) for rid in items.values_list("rid", flat=True)[: NAMED + 1]]
    yield from _report("items that are not of the run in the ledger", rids)


def _ends(task: Task) -> Iterator[str]:
    """A task ends once, and once more after each retry; each end is told once."""
    told = Count("event", filter=Q(event__kind__in=Event.Kind.values))
    row = Task.objects.filter(pk=task.pk).annotate(told=told).order_by()
    for state, retries, times in row.values_list("state", "retries", "told"):
        if times != retries + (state in ENDS):
            again = f", it was retried {retries} times" if retries else ""
            yield f"it is {state}{again}, and its end was told {times} times"


def _orphans(task: Task) -> Iterator[str]:
    row = Page.objects.filter(rid=OuterRef("rid"), task=OuterRef("task"))
    orphans = Item.objects.filter(~Exists(row), task=task).order_by("id")
    rids = [str(rid) for rid in orphans.values_list("rid", flat=True)[: NAMED + 1]]
    yield from _report("items of requests that have no ledger row", rids)


def _counters(task: Task) -> Iterator[str]:
    rows = Page.objects.filter(task=task).aggregate(
        na=Count("pk"),
        nf=Count("pk", filter=Q(state=Page.State.DONE)),
        ne=Count("pk", filter=Q(state=Page.State.ERROR)),
        cancelled=Count("pk", filter=Q(state=Page.State.ERROR, reason=CANCELLED)),
    )
    found = rows | {"items": Item.objects.filter(task=task).count()}
    for name, number in found.items():
        if getattr(task, name) != number:
            yield f"its counter {name} is {getattr(task, name)}, the database has {number}"


def strays(task: Task) -> int:
    """Ledger rows of requests that neither the seeds nor any row led to."""
    return sum(len(there - promised) for there, promised in _parts(task))


def _closure(task: Task) -> Iterator[str]:
    """Seeds and recorded follow-ups have one ledger row each, and no other request has one."""
    limited = 0 < task.settings.get("page_limit", 0) <= task.na  # what came later was refused
    missing: list[str] = []
    strange: list[str] = []
    for there, promised in _parts(task):
        if not limited:
            missing += [str(UUID(bytes=rid)) for rid in islice(promised - there, NAMED + 1)]
        strange += [str(UUID(bytes=rid)) for rid in islice(there - promised, NAMED + 1)]
    yield from _report("requests that were recorded but never ended", missing)
    yield from _report("ledger rows of requests that nothing led to", strange)


def _parts(task: Task) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """Rids that have a ledger row, and those that must have one, a part of all rids at a time."""
    rows = Page.objects.filter(task=task).order_by()
    for low, high in _ranges(1 + rows.count() // PART):
        there = {
            rid.bytes
            for rid in rows.filter(rid__gte=low, rid__lte=high)
            .values_list("rid", flat=True)
            .iterator(chunk_size=CHUNK)
        }
        yield there, {rid for rid in _promised(task) if low.bytes <= rid <= high.bytes}


def _promised(task: Task) -> Iterator[bytes]:
    rows = Page.objects.filter(task=task, follow_ups__isnull=False).order_by("id")
    lists = rows.values_list("follow_ups", flat=True).iterator(chunk_size=CHUNK)
    for packed in chain([task.seeds], lists):
        assert packed is not None
        for admission in unpack_admissions(packed):
            yield admission.rid


def _ranges(n: int) -> Iterator[tuple[UUID, UUID]]:
    """All rids, cut into n ranges of equal width: first and last of each."""
    edges = [2**128 * i // n for i in range(n + 1)]
    for low, high in pairwise(edges):
        yield UUID(int=low), UUID(int=high - 1)


def _report(what: str, offenders: list[str]) -> Iterator[str]:
    if offenders:
        more = " and more" if len(offenders) > NAMED else ""
        yield f"{what}: {', '.join(offenders[:NAMED])}{more}"
