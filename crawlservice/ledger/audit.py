"""Audit: checks that the ledger agrees with itself, with the items and with the tasks' counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from uuid import UUID

import msgpack
from django.db import connection
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from crawlframe.frontier import Frontier
from crawlservice.ledger import starts
from crawlservice.ledger.recovery import newest
from crawlservice.ledger.rows import landed
from crawlservice.models import Generation, Item, Page, StartPart, Task
from crawlservice.tasks.progress import stats
from crawlservice.tasks.progress.outcomes import KINDS

ENDS = (Task.State.FINISHED, Task.State.CANCELLED)
PART = 1_000_000  # ledger rows whose rids are held in memory at a time
GROUP = 100_000  # ledger rows of tasks that are audited together, unless one task has more
MAX_TASKS = 500  # tasks of a group, at most
MAX_REQUESTS = 10  # offending requests named per problem
CHUNK = 1000  # rows read at a time

Found = dict[int, list[str]]  # task -> problems

# Items of another run than the ledger's, and items of requests without a row.
STRANGE_ITEMS = f"""
SELECT i.task_id, i.rid, p.id IS NULL OR p.task_id <> i.task_id
FROM {Item._meta.db_table} i LEFT JOIN {Page._meta.db_table} p ON p.rid = i.rid
WHERE i.task_id IN ({{tasks}}) AND (p.id IS NULL OR p.task_id <> i.task_id
    OR p.version <> i.version OR p.items <= i.ordinal)
ORDER BY i.task_id, i.id
"""


def audit_cluster(frontier: Frontier) -> list[str]:
    """Violations of the guarantees in Redis at this instant, over all tasks: counters and queues,
    holders, generations and eras."""
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
    """``audit_group`` for one task."""
    return audit_group([task])[task.pk]


def audit_group(
    tasks: Collection[Task], done: Callable[[float], None] = lambda share: None
) -> Found:
    """Violations of the guarantees by tasks, in plain words; empty if there are none. All tasks are
    checked together: queried one by one, a database without statistics may read a whole table
    each time. ``done`` is called with the share of the tasks that was checked.

    Invariants are checked in one statement each, so a running task may be audited too; counters
    are compared once it has ended and all its rows are written."""
    found: Found = {task.pk: [] for task in tasks}
    ended = [t for t in tasks if t.state not in Task.ACTIVE and t.unwritten is None]
    for n, (look, some) in enumerate(
        (
            (_items_and_pages, tasks),
            (_strange_items, tasks),
            (_ends, tasks),
            (_counters, ended),
            (_stats, ended),
            (_closures, ended),
        )
    ):
        for task, problem in look({task.pk: task for task in some}) if some else ():
            found[task].append(f"task {task}: {problem}")
        done((n + 1) / 6)
    return found


def sizes(tasks: Collection[int] = ()) -> dict[int, int]:
    """The number of ledger rows of each of these tasks; without any, all tasks."""
    rows = Page.objects.order_by().values_list("task_id").annotate(n=Count("pk"))
    known = Task.objects.order_by("pk")
    if tasks:
        rows, known = rows.filter(task__in=tasks), known.filter(pk__in=tasks)
    return dict.fromkeys(known.values_list("pk", flat=True), 0) | dict(rows)


def groups(sizes: dict[int, int]) -> Iterator[list[int]]:
    """Tasks to audit together, in the order of their numbers."""
    group: list[int] = []
    rows = 0
    for task, n in sorted(sizes.items()):
        if group and (rows + n > GROUP or len(group) == MAX_TASKS):
            yield group
            group, rows = [], 0
        group.append(task)
        rows += n
    if group:
        yield group


def _items_and_pages(tasks: dict[int, Task]) -> Iterator[tuple[int, str]]:
    """Items come from exactly one run of each callback: all or none."""
    stored = (
        # Not by task too: a rid is of one task, and SQLite would walk all its items per page.
        Item.objects.filter(rid=OuterRef("rid"))
        .order_by()
        .values("rid")
        .annotate(n=Count("pk"))
        .values("n")
    )
    pages = (
        Page.objects.filter(task__in=tasks)
        .annotate(stored=Coalesce(Subquery(stored), 0))
        .exclude(stored=F("items"))
        .order_by("task_id", "id")
        .values_list("task_id", "rid", "items", "stored")
    )
    wrong = ((task, f"{rid} has {n} of {items}") for task, rid, items, n in pages.iterator())
    yield from _report("pages whose items are not all there, or too many", wrong)


def _strange_items(tasks: dict[int, Task]) -> Iterator[tuple[int, str]]:
    query = STRANGE_ITEMS.format(tasks=", ".join(["%s"] * len(tasks)))
    with connection.cursor() as cursor:
        cursor.execute(query, [*tasks])
        rows = [(task, str(UUID(str(rid))), orphan) for task, rid, orphan in cursor.fetchall()]
    others = ((task, rid) for task, rid, orphan in rows if not orphan)
    yield from _report("items that are not of the run in the ledger", others)
    orphans = ((task, rid) for task, rid, orphan in rows if orphan)
    yield from _report("items of requests that have no ledger row", orphans)


def _ends(tasks: dict[int, Task]) -> Iterator[tuple[int, str]]:
    """A task ends once, and once more after each retry; each end has one event, when the rows of
    cancelled requests are written."""
    told = Count("event", filter=Q(event__kind__in=KINDS.values()))
    rows = Task.objects.filter(pk__in=tasks).annotate(told=told).order_by()
    columns = ("pk", "state", "unwritten", "retries", "told")
    for task, state, unwritten, retries, times in rows.values_list(*columns):
        if times != retries + (state in ENDS and unwritten is None):
            again = f", it was retried {retries} times" if retries else ""
            yield task, f"it is {state}{again}, and its end was recorded {times} times"


def _counters(tasks: dict[int, Task]) -> Iterator[tuple[int, str]]:
    counts = {"na": Count("pk"), **Page.counts()}
    pages = Page.objects.filter(task__in=tasks).order_by().values_list("task_id")
    rows = pages.annotate(**counts)
    found = {task: dict(zip(counts, numbers, strict=True)) for task, *numbers in rows}
    none = dict.fromkeys(counts, 0)
    items = Item.objects.filter(task__in=tasks).order_by().values_list("task_id")
    of_items = dict(items.annotate(n=Count("pk")))
    for pk, task in tasks.items():
        for name, number in (found.get(pk, none) | {"items": of_items.get(pk, 0)}).items():
            if getattr(task, name) != number:
                yield pk, f"its counter {name} is {getattr(task, name)}, the database has {number}"


def _stats(tasks: dict[int, Task]) -> Iterator[tuple[int, str]]:
    """Each statistic of a spider must be the sum over its pages."""
    return stats.wrong(tasks.keys())


def strays(task: Task) -> int:
    """The number of ledger rows of requests that neither the seeds nor any row led to."""
    return sum(len(there - promised) for there, promised in _parts(task))


def _closures(tasks: dict[int, Task]) -> Iterator[tuple[int, str]]:
    """Seeds and recorded follow-ups have one ledger row each, and no other request has one."""
    missing: list[tuple[int, str]] = []
    strange: list[tuple[int, str]] = []
    for task, parts in _parts_of(tasks):
        # Later rows were refused.
        limited = 0 < task.settings.get("page_limit", 0) <= task.na or (
            task.settings.get("host_page_limit", 0) > 0
        )
        for there, promised in parts:
            if not limited and (lost := promised - there):
                missing += _some(task, lost - _landings(task))
            strange += _some(task, there - promised)
    yield from _report("requests that were recorded but never ended", missing)
    yield from _report("ledger rows of requests that nothing led to", strange)


Part = tuple[set[bytes], set[bytes]]  # rids that have a ledger row, and rids that must have one


def _parts_of(tasks: dict[int, Task]) -> Iterator[tuple[Task, Iterable[Part]]]:
    if len(tasks) == 1:  # it may be large
        yield from ((task, _parts(task)) for task in tasks.values())
        return
    rows = Page.objects.filter(task__in=tasks).order_by("task_id", "id")
    columns = rows.values_list("task_id", "rid", "follow_ups").iterator(chunk_size=CHUNK)
    left = tasks.copy()
    parted = {
        *StartPart.objects.filter(task__in=tasks).order_by().values_list("task_id", flat=True)
    }
    for pk, mine in groupby(columns, key=itemgetter(0)):
        task = left.pop(pk)
        there, promised = set(), {*(_seeds(task) if pk in parted else _rids(task.seeds))}
        for _, rid, packed in mine:
            there.add(rid.bytes)
            promised.update(_rids(packed))
        yield task, [(there, promised)]
    for task in left.values():
        yield task, [(set(), {*_seeds(task)})]


def _parts(task: Task) -> Iterator[Part]:
    """All rids, one part at a time."""
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
    yield from _seeds(task)
    for packed in lists:
        yield from _rids(packed)


def _landings(task: Task) -> set[bytes]:
    """The rids of pages that came by a redirect, just when a link to them was recorded: such a link
    is dropped then."""
    rows = Page.objects.filter(task=task, landing__isnull=False)
    return {to[0] for stored in rows.values_list("landing", flat=True) if (to := landed(stored))}


def _seeds(task: Task) -> Iterator[bytes]:
    """The rids of a task's seeds, and of the requests that its start yielded in parts."""
    for packed in chain([task.seeds], starts.lists(task.pk)):
        yield from _rids(packed)


def _rids(packed: bytes | memoryview | None) -> Iterator[bytes]:
    """The rids of a packed list of admissions."""
    return map(itemgetter(0), msgpack.unpackb(packed) if packed else ())


def _ranges(n: int) -> Iterator[tuple[UUID, UUID]]:
    """All rids, cut into n ranges of equal width: first and last of each."""
    edges = [2**128 * i // n for i in range(n + 1)]
    for low, high in pairwise(edges):
        yield UUID(int=low), UUID(int=high - 1)


def _some(task: Task, rids: set[bytes]) -> Iterator[tuple[int, str]]:
    return ((task.pk, str(UUID(bytes=rid))) for rid in islice(rids, MAX_REQUESTS + 1))


def _report(what: str, offenders: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """One problem per task, which names the first of its offenders."""
    named: Found = defaultdict(list)
    for task, offender in offenders:
        if len(named[task]) <= MAX_REQUESTS:
            named[task].append(offender)
    for task, some in named.items():
        more = " and more" if len(some) > MAX_REQUESTS else ""
        yield task, f"{what}: {', '.join(some[:MAX_REQUESTS])}{more}"
