"""Ending: tasks of which nothing is left are marked ended, each once, with how they ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import connection as default_connection
from django.db.models import Count, Max, Q, Sum
from django.db.models.functions import Now

from crawlframe.frontier import Counts
from crawlservice.models import Event, Page, Task
from crawlservice.tasks.outcomes import KINDS, Decision, Ending, decide

log = logging.getLogger(__name__)

END = (
    f"UPDATE {Task._meta.db_table} SET state = %s, outcome = %s, reason = %s, finished_at = %s, "
    "na = %s, nf = %s, ne = %s, cancelled = %s, items = %s, unwritten = %s WHERE id = %s"
)


def end(tasks: Mapping[int, Counts], strays: int) -> set[int]:
    """In the transaction of the caller: ends those of which the ledger has every row, apart from
    ``strays`` of each. Returns which have ended. Raises django.db.Error."""
    pages = Page.objects.filter(task_id__in=tasks).values_list("task_id")
    deepest = Max("depth", filter=Q(state=Page.State.DONE))
    sums = pages.annotate(rows=Count("*"), sum=Sum("items"), deepest=deepest)
    held = {pk: found for pk, *found in sums}
    # In order, so that two who end some of the same tasks cannot deadlock.
    locked = Task.objects.filter(pk__in=tasks).order_by("pk").select_for_update()
    known = {task.pk: task for task in locked.defer("seeds").annotate(clock=Now())}
    ended, changes, events = set(), [], []
    for pk, counts in tasks.items():
        rows, items, depth = held.get(pk, (0, 0, None))
        task, missing = known.get(pk), counts.na - (rows - strays)
        if counts.nr > 0 or not _may_end(task, missing, counts):
            continue
        ended.add(pk)
        if task is not None and task.state in Task.ACTIVE:
            change, event = _ended(task, counts, items, depth, missing)
            changes.append(change)
            events.append(event)
    if changes:
        with default_connection.cursor() as cursor:
            cursor.executemany(END, changes)
        Event.objects.bulk_create(events)
    for event in events:
        if event.kind == Event.Kind.FAILED:
            log.warning("task %d has failed: %s", event.task_id, event.reason)
    return ended


def _may_end(task: Task | None, missing: int, counts: Counts) -> bool:
    """``missing``: the number of admitted requests that have no ledger row yet. Those of cancelled
    requests are written later (cancellation.py), and some of them had a row already: of a run whose
    worker died before it told the frontier."""
    if task and task.state not in (Task.State.RUNNING, Task.State.PAUSED) and counts.cancelled:
        return missing <= counts.cancelled
    return missing == 0


def _ended(
    task: Any, counts: Counts, items: int, depth: int | None, missing: int
) -> tuple[list[Any], Event]:
    """The values of END for a task, which has the database's ``clock``, and the event."""
    _, na, nf, ne, *_ = counts
    if task.state == Task.State.CANCELLING and not task.closing:
        after, decided = Task.State.CANCELLED, Decision(Task.Outcome.CANCELLED)
    else:
        ending = Ending(na, nf, ne, items, counts.limited, depth, counts.cancelled)
        after, decided = Task.State.FINISHED, decide(task, ending)
    outcome, reason = decided.outcome.value, decided.reason
    now = default_connection.ops.adapt_datetimefield_value(task.clock)
    lacks = counts.cancelled and task.state == Task.State.CANCELLING
    unwritten = max(0, missing) if lacks else None
    change = [after.value, outcome, reason, now, na, nf, ne, counts.cancelled, items, unwritten]
    event = Event(task=task, kind=KINDS[decided.outcome], outcome=outcome, reason=reason)
    return [*change, task.pk], event
