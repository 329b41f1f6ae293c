"""Removal: deletes ended tasks with all their data. This only happens when a user asks for it.
Their files follow later, if no other task has saved the same (crawlservice/files/pruning.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import CASCADE, Count, F, Model, QuerySet, Sum

from crawlservice.connections.frontier import frontier
from crawlservice.models import (
    Delivery,
    Event,
    Item,
    KeptPage,
    Page,
    PageFile,
    ParsedPage,
    ReplacedItem,
    Run,
    Task,
)
from crawlservice.tasks.results.task_rows import of_task
from crawlservice.tasks.retry import ENDED

ROWS_PER_DELETE = 5_000  # rows deleted in one transaction, more or less
GROUP = 500  # tasks at most
COUNTED = (Item, Page)
# All other tables whose rows go with their task.
OF_TASK = [
    one.related_model
    for one in Task._meta.related_objects
    if one.on_delete is CASCADE
    and one.related_model._meta.app_label == Task._meta.app_label
    and one.related_model not in COUNTED
]


class RemovalExtent(NamedTuple):
    """The amount of data to be removed."""

    tasks: int = 0
    pages: int = 0
    items: int = 0


def ended_before(moment: datetime, spider: str = "") -> QuerySet[Task]:
    tasks = Task.objects.filter(state__in=ENDED, finished_at__lt=moment)
    return tasks.filter(spider=spider) if spider else tasks


def extent(tasks: QuerySet[Task]) -> RemovalExtent:
    """The amount of data by the numbers in the tasks' rows, without counting."""
    pages = Sum(F("nf") + F("ne"), default=0)
    found = tasks.order_by().aggregate(n=Count("pk"), pages=pages, of_items=Sum("items", default=0))
    return RemovalExtent(found["n"], found["pages"], found["of_items"])


def remove(
    tasks: QuerySet[Task], held: Callable[[Collection[int]], Collection[int]] = lambda group: ()
) -> Iterator[RemovalExtent]:
    """Removes tasks, the oldest first; yields the extent of each transaction.

    A large task is deleted in several transactions. If interrupted, it has fewer pages and items
    until it is removed again. Tasks that were retried meanwhile stay, as do tasks that have
    requests in Redis, and tasks that ``held`` returns.

    Raises django.db.Error, redis.RedisError and FrontierError."""
    for found, rows in _groups(tasks):
        frontier().close_tasks(found)  # the process that ended them may have died first
        group = [task for task, left in frontier().counts_of(found).items() if left is None]
        needed = held(group)
        group = [task for task in group if task not in needed]
        if rows > ROWS_PER_DELETE:
            for task in group:
                yield from _thin_out(task)
        yield _remove(group)


def _groups(tasks: QuerySet[Task]) -> Iterator[tuple[list[int], int]]:
    """Numbers of tasks that together have about ROWS_PER_DELETE rows, or of one task that has
    more."""
    group: list[int] = []
    size = last = 0
    columns = tasks.order_by("pk").values_list("pk", F("nf") + F("ne") + F("items"))
    while found := columns.filter(pk__gt=last)[:GROUP]:
        for last, rows in found:
            if group and (size + rows > ROWS_PER_DELETE or len(group) == GROUP):
                yield group, size
                group, size = [], 0
            group.append(last)
            size += rows
    if group:
        yield group, size


def _thin_out(task: int) -> Iterator[RemovalExtent]:
    """Deletes the task's pages and items, except fewer than ROWS_PER_DELETE of each."""
    # Rows still to be written are given up, or they would come back.
    Task.objects.filter(pk=task, state__in=ENDED).update(unwritten=None)
    kinds: tuple[tuple[type[Model], str], ...] = (
        (Item, "items"),
        (Page, "pages"),
        (PageFile, ""),
        (KeptPage, ""),
        (ParsedPage, ""),
        (ReplacedItem, ""),
    )
    for model, told in kinds:
        number = ROWS_PER_DELETE
        while number == ROWS_PER_DELETE:
            with transaction.atomic():
                if not _ended([task]):
                    return
                rows = of_task(model._default_manager.all(), task)
                found = [*rows.values_list("pk", flat=True)[:ROWS_PER_DELETE]]
                if found and model is Page:
                    _forget_examples(Page.objects.filter(pk__in=found))
                number = _delete(model._default_manager.filter(pk__in=found)) if found else 0
            yield RemovalExtent(**{told: number}) if told else RemovalExtent()


def _forget_examples(pages: QuerySet[Page]) -> None:
    """A task that has parsed these pages again shows values of their items. It stays, and keeps
    only the numbers."""
    rids = pages.order_by().values("rid")
    shown = ParsedPage.objects.filter(source_rid__in=rids).exclude(examples=[])
    shown.update(examples=[])


@transaction.atomic
def _remove(group: list[int]) -> RemovalExtent:
    ended = _ended(group)
    _delete(Delivery.objects.filter(event__in=Event.objects.filter(task__in=ended)))
    for model in OF_TASK:
        _delete(model._default_manager.filter(task__in=ended))
    _forget_examples(Page.objects.filter(task__in=ended))
    items = _delete(Item.objects.filter(task__in=ended))
    pages = _delete(Page.objects.filter(task__in=ended))
    Run.objects.filter(task__in=ended).update(task=None)
    return RemovalExtent(_delete(Task.objects.filter(pk__in=ended)), pages, items)


def _ended(group: list[int]) -> list[int]:
    """Tasks that do not run again; locked until the transaction ends."""
    tasks = Task.objects.select_for_update().filter(pk__in=group, state__in=ENDED)
    return [*tasks.values_list("pk", flat=True)]


def _delete(rows: QuerySet[Any]) -> int:
    """Deletes in one statement. Referring rows are handled here; the journal keeps naming tasks."""
    return rows.order_by()._raw_delete(rows.db) or 0
