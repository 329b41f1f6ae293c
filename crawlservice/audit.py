"""Audit: does the ledger agree with itself, with the items and with the task's counters?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from crawlframe.request import unpack_admissions
from crawlservice.models import Item, Page, Task

NAMED = 10  # offending requests named per problem
CHUNK = 1000  # rids asked for at a time


def audit(task: Task) -> list[str]:
    """Every way in which a task breaks the promise, in plain words; empty is good.

    What must hold at every instant is looked at in one statement each, so a running task may be
    audited too; counters are compared once it has ended."""
    problems = [*_items_and_pages(task), *_orphans(task)]
    if task.state not in Task.ACTIVE:
        problems += [*_counters(task), *_lost(task)]
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
    )
    found = rows | {"items": Item.objects.filter(task=task).count()}
    for name, number in found.items():
        if getattr(task, name) != number:
            yield f"its counter {name} is {getattr(task, name)}, the database has {number}"


def _lost(task: Task) -> Iterator[str]:
    """Recorded follow-ups without a ledger row of their own."""
    if 0 < task.settings.get("page_limit", 0) <= task.na:
        return  # what came after the limit was refused
    rows = Page.objects.filter(task=task)
    with_follow_ups = rows.filter(follow_ups__isnull=False).order_by("id")
    lists = with_follow_ups.values_list("follow_ups", flat=True).iterator(chunk_size=200)
    promised = (
        UUID(bytes=admission.rid)
        for packed in chain([task.seeds], lists)
        if packed is not None
        for admission in unpack_admissions(packed)
    )
    missing: list[str] = []
    for rids in _chunks(promised):
        there = set(rows.filter(rid__in=rids).values_list("rid", flat=True))
        missing += [str(rid) for rid in rids if rid not in there]
        if len(missing) > NAMED:
            break
    yield from _report("requests that were recorded but never ended", missing)


def _chunks(rids: Iterable[UUID]) -> Iterator[list[UUID]]:
    rids = iter(rids)
    while chunk := list(islice(rids, CHUNK)):
        yield chunk


def _report(what: str, offenders: list[str]) -> Iterator[str]:
    if offenders:
        more = " and more" if len(offenders) > NAMED else ""
        yield f"{what}: {', '.join(offenders[:NAMED])}{more}"
