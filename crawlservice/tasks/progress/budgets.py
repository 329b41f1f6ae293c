"""Budgets: the spending of tasks, their stops, and the traps that they meet. Reports of workers are
written in the transactions of the pages, so each page counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from crawlframe.base.limits import BYTE_LIMIT, TIME_LIMIT
from crawlframe.items.encode import clean_text
from crawlframe.run.ledger import Recorded
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant
from crawlservice.connections.contained import contained
from crawlservice.models import Spent, Task, Trap
from crawlservice.models.ledger import SPENT_HOST, TEMPLATE
from crawlservice.tasks.progress.progress import Progress
from crawlservice.tasks.progress.stats import TaskStats

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


class Budgets(Participant):
    """Adds the bytes of pages to what their tasks have spent, and closes tasks that have spent all,
    as their outcomes report. Notes the traps that workers noticed."""

    takes = ("fetch.budget", "results.trap")

    def __init__(self) -> None:
        self._spent: dict[Account, int] = {}  # by the last transaction

    def write(self, outcomes: list[Outcome]) -> None:
        self._spent = _spend(outcomes)
        for outcome in outcomes:
            limit = outcome.fetch.budget.limit if outcome.fetch.budget else 0
            total = self._spent.get((outcome.task, ""), 0)
            if 0 < limit <= total and not outcome.results.closing:
                outcome.results.closing = f"{BYTE_LIMIT}: {total:,} of {limit:,} bytes were fetched"
        rows = [
            (outcome.task, clean_text(trap.template)[:TEMPLATE], trap.pages, trap.contents)
            for outcome in outcomes
            if (trap := outcome.results.trap)
        ]
        if rows:
            with connection.cursor() as cursor:
                cursor.executemany(SIGHT, sorted(rows))

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
        """Tells this process the total spending on a host."""
        for outcome in outcomes:
            spent = self._spent.get((outcome.task, _host(outcome.host)), 0)
            if outcome.fetch.budget is not None and spent and recorded[outcome.rid].new:
                outcome.fetch.budget.spent[outcome.host] = spent
        self._spent = {}
        return ()


class TaskClosing(Participant):
    """Closes tasks as their spiders or budgets decided. The first reason counts."""

    takes = ("results.closing", "fetch.budget")

    def write(self, outcomes: list[Outcome]) -> None:
        for task, reason in sorted(
            {o.task: o.results.closing for o in outcomes if o.results.closing}.items()
        ):
            Task.objects.filter(pk=task, state__in=(Task.State.RUNNING, Task.State.PAUSED)).update(
                state=Task.State.CANCELLING, closing=reason
            )


def _spend(outcomes: Iterable[Outcome]) -> dict[Account, int]:
    """Adds the bytes of these pages to their accounts. Returns the new totals."""
    sums: Counter[Account] = Counter()
    for outcome in outcomes:
        if outcome.fetch.budget is None:
            continue
        if outcome.fetch.budget.limit:
            sums[outcome.task, ""] += outcome.fetch.size + sum(outcome.fetch.inline_bytes.values())
        if outcome.fetch.budget.host_limit:
            sums[outcome.task, _host(outcome.host)] += outcome.fetch.size
            for host, size in outcome.fetch.inline_bytes.items():
                sums[outcome.task, _host(host)] += size
    if not sums:
        return {}
    with connection.cursor() as cursor:  # sorted, so that two processes cannot deadlock
        cursor.executemany(SPEND, [(*account, size) for account, size in sorted(sums.items())])
    rows = Spent.objects.filter(
        task__in={task for task, _ in sums}, host__in={host for _, host in sums}
    )
    return {(task, host): size for task, host, size in rows.values_list("task", "host", "bytes")}


def _host(host: str) -> str:
    return clean_text(host)[:SPENT_HOST]


# -- the clock ------------------------------------------------------------------------------------


def begin(task: Task) -> None:
    """Sets when the time of a task is over that is retried, or submitted with a limit, just now. A
    retried one may spend its bytes again, too."""
    seconds = task.settings.get(TIME_LIMIT, 0)
    deadline = Now() + timedelta(seconds=seconds) if seconds else None
    Task.objects.filter(pk=task.pk).update(deadline=deadline, paused_at=None)
    Spent.objects.filter(task=task).delete()


def stop_clock(task_id: int) -> None:
    """Stops the task's clock, if it is running."""
    Task.objects.filter(pk=task_id, state=Task.State.RUNNING).update(paused_at=Now())


@transaction.atomic
def start_clock(task_id: int) -> None:
    """Lets its time pass again; the time of its pause does not count."""
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
    """Stops of a task's links, the most frequent first."""
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
