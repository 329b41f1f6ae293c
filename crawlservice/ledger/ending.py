"""Ending: tasks that have nothing left are marked as ended, each once, with their outcome."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection as default_connection
from django.db.models import Count, Max, Q, Sum
from django.db.models.functions import Now

from crawlframe.frontier import Counts
from crawlframe.request.request import end_rid
from crawlframe.spider.task_info import Summary
from crawlservice.models import Event, Page, ParsedPage, Task
from crawlservice.quality.evaluation import (
    SECONDS_AT_END,
    at_end,
    begin_again,
    read_again,
    seconds_of,
)
from crawlservice.quality.norms import Totals
from crawlservice.tasks.arguments.secrets import revealed
from crawlservice.tasks.progress.outcomes import KINDS, Ending, OutcomeDecision, decide, with_last
from crawlservice.tasks.progress.stats import of_task as stats_of


def sources(tasks: Collection[int]) -> set[int]:
    """The tasks whose pages these have parsed, if that has changed something and they are still to
    be marked as ended. Raises django.db.Error."""
    parsing = Task.objects.filter(pk__in=tasks, reparse__isnull=False, state__in=Task.ACTIVE)
    found = {pk for pk, dry in parsing.values_list("pk", "reparse__dry_run") if not dry}
    if not found:
        return set()
    rows = ParsedPage.objects.filter(ParsedPage.DIFFERS, task__in=found).order_by()
    return {*rows.values_list("source_task", flat=True).distinct()}


log = logging.getLogger(__name__)

END = (
    f"UPDATE {Task._meta.db_table} SET state = %s, outcome = %s, reason = %s, finished_at = %s, "
    "na = %s, nf = %s, ne = %s, cancelled = %s, excluded = %s, items = %s, unwritten = %s, "
    "refused = %s WHERE id = %s"
)


def end(tasks: Mapping[int, Counts], strays: int) -> set[int]:
    """Ends the tasks whose rows are all in the ledger, apart from ``strays`` rows of each, in the
    caller's transaction. Returns the tasks that have ended. Raises django.db.Error."""
    origins = sources(tasks)
    # In order, so that two processes that end some of the same tasks cannot deadlock.
    locked = Task.objects.filter(pk__in={*tasks, *origins}).order_by("pk")
    locked = locked.select_for_update(no_key=True).defer("seeds")
    known = {task.pk: task for task in locked.annotate(clock=Now())}
    # Then, because until then pages may be parsed again.
    pages = Page.objects.filter(task_id__in=tasks).values_list("task_id")
    done = Q(state=Page.State.DONE)
    sums = pages.annotate(
        rows=Count("*"),
        sum=Sum("items"),
        deepest=Max("depth", filter=done),
        done=Count("pk", filter=done),
    )
    held = {pk: found for pk, *found in sums}
    ended, changes = set(), []
    events: list[Event] = []
    until = time.monotonic() + SECONDS_AT_END
    lasts = _lasts([task.pk for task in known.values() if task.ends])
    for pk, counts in tasks.items():
        rows, items, depth, right = held.get(pk, (0, 0, None, 0))
        task, missing = known.get(pk), counts.na - (rows - strays)
        if counts.nr > 0 or not _may_end(task, missing, counts):
            continue
        ended.add(pk)
        if task is not None and task.state in Task.ACTIVE:
            if not strays and not counts.cancelled:  # Redis does not know which were repaired
                counts = counts._replace(nf=right, ne=counts.na - right)
            change, told = _ended(task, counts, items, depth, missing, lasts.get(pk), until)
            changes.append(change)
            events += told
    if changes:
        with default_connection.cursor() as cursor:
            cursor.executemany(END, changes)
        Event.objects.bulk_create(events)
    judge_again([known[pk] for pk in sorted(origins) if pk in known and pk not in tasks])
    for event in events:
        if event.kind == Event.Kind.FAILED:
            log.warning("task %d has failed: %s", event.task_id, event.reason)
    return ended


def _may_end(task: Task | None, missing: int, counts: Counts) -> bool:
    """``missing``: the number of admitted requests that have no ledger row yet. Rows of cancelled
    requests are written later (cancellation.py); some exist already, of a run whose worker died
    before it reported to the frontier."""
    if task and task.state not in (Task.State.RUNNING, Task.State.PAUSED) and counts.cancelled:
        return missing <= counts.cancelled
    return missing == 0


def _lasts(tasks: Sequence[int]) -> dict[int, Page]:
    """The rows of the last requests of tasks that have one."""
    rids = {UUID(bytes=end_rid(task)): task for task in tasks}
    rows = Page.objects.filter(rid__in=rids).only("rid", "state", "reason", "detail", "items")
    return {rids[row.rid]: row for row in rows} if rids else {}


def _ended(
    task: Any,
    counts: Counts,
    items: int,
    depth: int | None,
    missing: int,
    last: Page | None,
    until: float,
) -> tuple[list[Any], list[Event]]:
    """The values of END for a task, which has the database's ``clock``, and the events."""
    _, na, nf, ne, *_ = counts
    ending = Ending(na, nf, ne, items, _limited(counts), depth, counts.cancelled, counts.excluded)
    after, decided = _decided(task, ending.without(last) if last else ending)
    if last:
        decided = with_last(decided, last)
    totals = Totals(items, ending.pages - bool(last), seconds_of(task, task.clock))
    outcome, reason, found = decided.outcome.value, decided.reason, None
    if task.watch_id is None:
        outcome, reason, found = at_end(task, outcome, reason, totals, until)
    now = default_connection.ops.adapt_datetimefield_value(task.clock)
    lacks = counts.cancelled and task.state == Task.State.CANCELLING
    unwritten = max(0, missing) if lacks else None
    refused = Counter(task.refused or {}) + Counter(counts.refused)  # before a retry, and since
    without_errors = [counts.cancelled, counts.excluded]
    change = [after.value, outcome, reason, now, na, nf, ne, *without_errors, items, unwritten]
    change.append(json.dumps(refused) if refused else None)
    told = [found] if found else []
    if unwritten is None:  # else with the last of these rows (cancellation.py)
        told.insert(0, end_event(task, outcome, reason))
    return [*change, task.pk], told


def end_event(task: Any, outcome: str, reason: str) -> Event:
    """The event, unsaved, that a task with the database's ``clock`` has ended."""
    event = Event(task=task, kind=KINDS[Task.Outcome(outcome)], outcome=outcome, reason=reason)
    if task.watch_id is not None:  # no person follows its rounds
        event.delivered_at = task.clock
    return event


def judge_again(tasks: Iterable[Task]) -> None:
    """Decides the outcomes of tasks anew that have ended, because some of their pages were parsed
    again. They are locked. Raises django.db.Error."""
    for task in tasks:
        if task.state in Task.ACTIVE:
            read_again(task)
        if task.state != Task.State.FINISHED:
            continue
        depth = None
        if not task.items:
            pages = Page.objects.filter(task=task.pk, state=Page.State.DONE).order_by()
            depth = pages.aggregate(deepest=Max("depth"))["deepest"]
        limited = sum((task.refused or {}).values())
        numbers = (task.items, limited, depth, task.cancelled, task.excluded)
        ending = Ending(task.na, task.nf, task.ne, *numbers)
        last = _lasts([task.pk]).get(task.pk) if task.ends else None
        decided = decide(task, ending.without(last) if last else ending)
        if last:
            decided = with_last(decided, last)
        Task.objects.filter(pk=task.pk).update(outcome=decided.outcome, reason=decided.reason)
        begin_again(task)


def _limited(counts: Counts) -> int:
    return sum(counts.refused.values())


def _decided(task: Task, ending: Ending) -> tuple[Task.State, OutcomeDecision]:
    if task.state == Task.State.CANCELLING and not task.closing:
        return Task.State.CANCELLED, OutcomeDecision(Task.Outcome.CANCELLED)
    return Task.State.FINISHED, decide(task, ending)


def summary_of(pk: int, counts: Counts) -> Summary | None:
    """The end of a task that has only its last request left. Raises django.db.Error and
    SealError."""
    task = Task.objects.filter(pk=pk).defer("seeds").annotate(clock=Now()).first()
    if task is None:
        return None
    _, na, nf, ne, *_ = counts
    depth = None
    if not counts.items:  # otherwise it does not matter, and finding it is slow
        pages = Page.objects.filter(task=pk, state=Page.State.DONE).order_by()
        depth = pages.aggregate(deepest=Max("depth"))["deepest"]
    numbers = (counts.items, _limited(counts), depth, counts.cancelled, counts.excluded)
    ending = Ending(na - 1, nf, ne, *numbers)
    _, (outcome, reason) = _decided(task, ending)
    counted = stats_of(pk)
    return Summary(
        task=pk,
        spider=task.spider,
        arguments=revealed(task.arguments),
        outcome=outcome.value,
        reason=reason,
        started_at=task.created_at,
        finished_at=task.clock,
        requests=na - 1,
        done=nf,
        errors=counts.errors,
        cancelled=counts.cancelled,
        excluded=counts.excluded,
        items=counts.items,
        stats=counted.counters,
        maxima=counted.maxima,
    )
