"""Budgets: what tasks spend, what stops them, and the traps that they meet. What workers report is
written in the transactions of the pages, so each page counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from crawlframe.budgets import BYTE_LIMIT, TIME_LIMIT
from crawlframe.items import clean_text
from crawlframe.outcome import Outcome
from crawlservice.connections.contained import contained
from crawlservice.models import Spent, Task, Trap
from crawlservice.models.budget import HOST, TEMPLATE
from crawlservice.tasks.progress import Progress
from crawlservice.tasks.stats import TaskStats

TRAPS = 20  # shown of a task

SPEND = f"""
INSERT INTO {Spent._meta.db_table} (task_id, host, bytes) VALUES (%s, %s, %s)
ON CONFLICT (task_id, host) DO UPDATE SET bytes = {Spent._meta.db_table}.bytes + excluded.bytes
"""
SIGHT = f"""
INSERT INTO {Trap._meta.db_table} (task_id, template, pages, contents) VALUES (%s, %s, %s, %s)
ON CONFLICT (task_id, template) DO UPDATE SET
    pages = {Trap._meta.db_table}.pages + excluded.pages,
    contents = CASE WHEN excluded.contents > {Trap._meta.db_table}.contents
        THEN excluded.contents ELSE {Trap._meta.db_table}.contents END
"""

Account = tuple[int, str]  # task and host; "" for all hosts


class Stop(NamedTuple):
    """A limit, and how many links were not followed because of it."""

    reason: str
    links: int


# -- in the transaction of the pages --------------------------------------------------------------


def spend(outcomes: Iterable[Outcome]) -> dict[Account, int]:
    """Adds the bytes of pages to what their tasks have spent, and closes those that have spent all:
    the outcomes say so. Call it in the transaction that writes their rows, before tasks are
    closed. Returns what is spent now. Raises django.db.Error."""
    counted = [outcome for outcome in outcomes if outcome.budget]
    sums: Counter[Account] = Counter()
    for outcome in counted:
        assert outcome.budget is not None
        if outcome.budget.limit:
            sums[outcome.task, ""] += outcome.size + sum(outcome.beside.values())
        if outcome.budget.host_limit:
            sums[outcome.task, _host(outcome.host)] += outcome.size
            for host, size in outcome.beside.items():
                sums[outcome.task, _host(host)] += size
    if not sums:
        return {}
    with connection.cursor() as cursor:  # sorted, so that two processes cannot deadlock
        cursor.executemany(SPEND, [(*account, size) for account, size in sorted(sums.items())])
    rows = Spent.objects.filter(
        task__in={task for task, _ in sums}, host__in={host for _, host in sums}
    )
    spent = {(task, host): size for task, host, size in rows.values_list("task", "host", "bytes")}
    for outcome in counted:
        assert outcome.budget is not None
        limit, total = outcome.budget.limit, spent.get((outcome.task, ""), 0)
        if 0 < limit <= total and not outcome.closing:
            outcome.closing = f"{BYTE_LIMIT}: {total:,} of {limit:,} bytes were fetched"
    return spent


def of_host(spent: dict[Account, int], outcome: Outcome) -> int:
    """What its task has spent on its host; 0 if that is not counted."""
    return spent.get((outcome.task, _host(outcome.host)), 0)


def _host(host: str) -> str:
    return clean_text(host)[:HOST]


def note_traps(outcomes: Iterable[Outcome]) -> None:
    """Adds what workers noticed; call it in the transaction that writes the rows. Raises
    django.db.Error."""
    rows = [
        (outcome.task, clean_text(trap.template)[:TEMPLATE], trap.pages, trap.contents)
        for outcome in outcomes
        if (trap := outcome.trap)
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(SIGHT, sorted(rows))


# -- the clock ------------------------------------------------------------------------------------


def begin(task: Task) -> None:
    """Sets when the time of a task is over that is retried, or submitted with a limit, just now. A
    retried one may spend its bytes again, too."""
    seconds = task.settings.get(TIME_LIMIT, 0)
    deadline = Now() + timedelta(seconds=seconds) if seconds else None
    Task.objects.filter(pk=task.pk).update(deadline=deadline, paused_at=None)
    Spent.objects.filter(task=task).delete()


def stop_clock(task_id: int) -> None:
    """Its time does not pass from now on, if it is running."""
    Task.objects.filter(pk=task_id, state=Task.State.RUNNING).update(paused_at=Now())


@transaction.atomic
def start_clock(task_id: int) -> None:
    """Its time passes again; what it was paused for does not count."""
    paused = Task.objects.select_for_update().filter(pk=task_id, paused_at__isnull=False)
    for deadline, since, now in paused.values_list("deadline", "paused_at", Now()):
        paused.update(
            deadline=deadline and deadline + (now - since),
            idle=F("idle") + (now - since).total_seconds(),
            paused_at=None,
        )


def close_overdue() -> None:
    """Closes running tasks whose time is over. Raises django.db.Error."""
    running = Task.objects.filter(state=Task.State.RUNNING, deadline__isnull=False)
    for task in running.filter(deadline__lte=Now()).only("settings").order_by("pk"):
        with contained(f"task {task.pk}"):
            reason = f"{TIME_LIMIT}: {task.settings.get(TIME_LIMIT, 0):,g} seconds are over"
            running.filter(pk=task.pk).update(state=Task.State.CANCELLING, closing=reason)


# -- reading --------------------------------------------------------------------------------------


def stops(progress: Progress, counted: TaskStats) -> list[Stop]:
    """What stopped links of a task, the most frequent first."""
    found = Counter(progress.refused)
    found.update(counted.unfollowed)
    return [Stop(reason, links) for reason, links in found.most_common() if links > 0]


def traps_of(tasks: Collection[int]) -> dict[int, list[Trap]]:
    """The possible traps of those tasks that met some, the largest first. Raises
    django.db.Error."""
    found: dict[int, list[Trap]] = {}
    for trap in Trap.objects.filter(task__in=tasks).order_by("task", "-pages", "template"):
        some = found.setdefault(trap.task_id, [])
        if len(some) < TRAPS:
            some.append(trap)
    return found
