"""Recovery: a new era starts when Redis has lost data. All nodes start over, and Redis is filled
again from the database."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Q
from django.db.models.functions import Now
from redis import RedisError

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.batches import chunks
from crawlframe.frontier.client.eras import CLOSED
from crawlservice.connections.contained import contained
from crawlservice.hosts.orders import send_again
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.models import Era, Page, Task
from crawlservice.tasks.progress import budgets

log = logging.getLogger(__name__)

FIRST = "the first"
MISTRUST = "the database has"  # prefix of each reason not to trust Redis
ERAS, LATELY = 3, timedelta(minutes=10)


def is_whole(frontier: Frontier) -> bool:
    """Whether Redis holds the latest era of the database, open in all partitions."""
    return frontier.eras.settled() == newest() != 0


def renew(
    frontier: Frontier, still_here: Callable[[], None] = lambda: None, mistrust: str = ""
) -> Era:
    """Starts a new era, or continues an interrupted one, until Redis is whole. ``still_here`` is
    called repeatedly meanwhile; ``mistrust`` says why nothing in Redis can be trusted. Raises
    redis.RedisError, FrontierError and django.db.Error."""
    started = time.monotonic()
    # As a client that notices each loss: a Redis set back meanwhile must not be opened.
    frontier = Frontier(frontier.store.apart())
    era = _begin(frontier, mistrust)
    frontier.eras.begin(era.number)
    for generation in frontier.leases.left():  # all of them are of earlier eras
        frontier.leases.replay(generation)
        still_here()
    problems = frontier.audit()
    if problems:
        # A power cut in the middle of a script: Redis 7.0 may have run only its first half.
        log.warning("Redis is inconsistent and is filled again: %s", problems[0])
    if problems or mistrust:
        frontier.eras.wipe()
    known = frontier.open_tasks()
    admitted = completed = 0
    # Tasks that have ended too, or their requests would be fetched once more.
    tasks = Task.objects.filter(Q(state__in=Task.ACTIVE) | Q(pk__in=known)).order_by("pk")
    for task in tasks:
        done = Reconciliation(task, frontier, still_here)
        with contained(f"task {task.pk}") as failed:
            done.run()
        if failed:  # it must not end as if it were complete
            _stop(task, frontier)
        admitted, completed = admitted + done.admitted, completed + done.completed
    send_again(frontier, still_here)
    # First: an era that once was open is never filled again, because nodes may know more of it.
    Era.objects.filter(pk=era.pk).update(opened_at=Now())
    frontier.eras.open()
    with suppress(RedisError):  # hosted servers may forbid it
        frontier.store.redis.bgrewriteaof()  # half a script must not stay in the file
    log.log(
        logging.INFO if era.reason == FIRST else logging.WARNING,
        "era %d starts: %s; %d requests brought back, %d known to be done, %.1f s",
        era.number,
        era.reason,
        admitted,
        completed,
        time.monotonic() - started,
    )
    return era


def _stop(task: Task, frontier: Frontier) -> None:
    """Pauses a task that cannot be brought back, for an operator to look at."""
    budgets.stop_clock(task.pk)
    running = Task.objects.filter(pk=task.pk, state=Task.State.RUNNING)
    if running.update(state=Task.State.PAUSED):
        log.error("task %d is paused: it could not be brought back into Redis", task.pk)
    if frontier.is_open(task.pk):
        frontier.pause(task.pk)


def repeats() -> bool:
    """Whether the database was mistrusted so often lately that one more era is no cure. Raises
    django.db.Error."""
    lately = Era.objects.filter(started_at__gt=Now() - LATELY, reason__startswith=MISTRUST)
    return lately.count() >= ERAS


def uncounted(frontier: Frontier) -> str:
    """The first task with more rows in the ledger than Redis counts, in words; "" if there is
    none. If there is one, Redis is older than the state that nodes last knew.

    Rows of requests in progress are no loss: their workers died before they reported to Redis.
    Tasks that are being cancelled are left out. Safe while nodes run: rows are counted first,
    so requests that end meanwhile make Redis seem ahead, never behind. Raises redis.RedisError and
    django.db.Error."""
    active = Task.objects.filter(state__in=(Task.State.RUNNING, Task.State.PAUSED))
    tasks = sorted({*active.values_list("pk", flat=True)} & {*frontier.open_tasks()})
    rows = _rows(tasks)
    unsent = _rows_of(frontier.leases.in_progress())
    for task, counts in frontier.counts_of(tasks).items():
        if counts is not None and rows[task] > (told := counts.nf + counts.ne + unsent[task]):
            return f"{rows[task]} requests of task {task} have ended, and Redis knows of {told}"
    return ""


def _rows(tasks: list[int]) -> Counter[int]:
    """The number of rows of each task in the ledger."""
    found: Counter[int] = Counter()
    for some in chunks(tasks):
        pages = Page.objects.filter(task_id__in=some).order_by().values_list("task_id")
        found.update(dict(pages.annotate(rows=Count("*"))))
    return found


def _rows_of(rids: Collection[bytes]) -> Counter[int]:
    """The number of these requests that have a row, by task."""
    found: Counter[int] = Counter()
    for some in chunks([*rids]):
        pages = Page.objects.filter(rid__in=[UUID(bytes=rid) for rid in some])
        found.update(pages.values_list("task_id", flat=True))
    return found


def _begin(frontier: Frontier, mistrust: str) -> Era:
    found = {*frontier.eras.read()}
    last = newest()
    unfinished = Era.objects.filter(pk=last, opened_at=None).first()
    if unfinished is not None and found == {(last, CLOSED)}:
        return unfinished  # the process that began it died
    numbers = [number for number, _ in found]
    if mistrust:
        reason = mistrust
    elif max(numbers) == 0:
        reason = "Redis is empty" if last else FIRST
    elif min(numbers) < last:
        reason = f"Redis went back to era {min(numbers)}"
    else:
        reason = "Redis has lost writes"
    return Era.objects.create(number=max(last, *numbers) + 1, reason=reason)


def newest() -> int:
    """The number of the latest era in the database; 0 before the first."""
    return Era.objects.values_list("number", flat=True).first() or 0
