"""Reconcile: brings Redis up to date with the database's records of a task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from uuid import UUID

from crawlframe.base import faults
from crawlframe.frontier import Completion, Counts, Frontier
from crawlframe.frontier.client.batches import chunks
from crawlframe.frontier.reservations import Target
from crawlframe.request.request import Admission, unpack_admissions
from crawlservice.ledger import starts, state
from crawlservice.ledger.rows import batched, landed, recorded
from crawlservice.models import Page, Task
from crawlservice.tasks.limits import send_limits
from crawlservice.tasks.stored_limits import limits_of
from crawlservice.tasks.submit import SWEEP

log = logging.getLogger(__name__)

REQUESTS_PER_STEP = 500  # requests at a time
FIELDS = ("rid", "task_id", "state", "reason", "follow_ups", "items", "depth", "landing")
TELL_EVERY = 10.0  # seconds between two log lines about a long one


class Reconciliation:
    """The reconciliation of one task. ``admitted`` and ``completed`` count requests that Redis did
    not know."""

    def __init__(
        self, task: Task, frontier: Frontier, still_here: Callable[[], None] = lambda: None
    ) -> None:
        """``still_here`` is called repeatedly while it lasts."""
        self.task = task
        self.admitted = self.completed = 0
        self._frontier = frontier
        self._still_here = still_here
        self._started = self._reported = time.monotonic()

    def run(self) -> Reconciliation:
        """Opens the task if Redis does not know it, admits every request in seeds and ledger,
        completes requests that have a row, and pauses or cancels the task if the database has it
        so. May run while nodes run, and be interrupted and repeated. Raises redis.RedisError,
        FrontierError and django.db.Error."""
        task = self.task
        self.open()
        state.bring_back(task, self._frontier)
        reached = Page.objects.filter(task=task, landing__isnull=False).only(*FIELDS)
        for some in batched(reached.iterator(chunk_size=REQUESTS_PER_STEP), REQUESTS_PER_STEP):
            mark_targets(self._frontier, some)
            self._still_here()
        if task.settings.get("page_limit") or task.settings.get("host_page_limit"):
            # Fetched requests come first, so that they do not fall beyond the page limits.
            for batch in self._batches():
                rows = rows_of(admission.rid for admission in batch)
                self._admit([admission for admission in batch if admission.rid in rows])
        for batch in self._batches():
            self._admit(batch)
            pending = self._frontier.pending(batch)
            hosts = {admission.rid: admission.host for admission in pending}
            self.completed += complete_recorded(self._frontier, hosts)
        counts = self._frontier.counts(task.pk)
        if counts is not None:
            align(task, self._frontier, counts)
        return self

    def open(self) -> None:
        """Makes Redis know the task; repeating it changes nothing."""
        # With seeds at once: an open task with nothing left would count as complete.
        seeds = unpack_admissions(self.task.seeds)[:REQUESTS_PER_STEP]
        self._frontier.open_task(self.task.pk, limits_of(self.task), seeds)
        if self.task.published_limits is not None:  # Redis may know it with the limits from before
            self._frontier.set_limits(self.task.pk, limits_of(self.task))

    def _batches(self) -> Iterator[list[Admission]]:
        """Every request that was ever to be admitted, in the order of the records."""
        rows = Page.objects.filter(task=self.task, follow_ups__isnull=False).order_by("pk")
        batch = unpack_admissions(self.task.seeds)
        lists = rows.values_list("follow_ups", flat=True).iterator(chunk_size=REQUESTS_PER_STEP)
        for number, packed in enumerate(chain(starts.lists(self.task.pk), lists)):
            assert packed is not None
            batch += unpack_admissions(packed)
            while len(batch) >= REQUESTS_PER_STEP:
                yield batch[:REQUESTS_PER_STEP]
                del batch[:REQUESTS_PER_STEP]
                self._report_progress(number)
        yield batch

    def _admit(self, admissions: list[Admission]) -> None:
        self.admitted += self._frontier.admit(self.task.pk, admissions)

    def _report_progress(self, rows: int) -> None:
        faults.at("reconcile.batch")
        self._still_here()
        now = time.monotonic()
        if now - self._reported > TELL_EVERY:
            self._reported = now
            log.info(
                "task %d: %d ledger rows read in %.0f s", self.task.pk, rows, now - self._started
            )


def complete_recorded(frontier: Frontier, pending: Mapping[bytes, str]) -> int:
    """Completes pending requests (rid -> host) whose ledger row was not reported to Redis by its
    writer. Returns how many. Raises as ``Reconciliation.run`` does."""
    done = 0
    for some in chunks([*pending]):
        rows = rows_of(some)
        completions = [
            Completion(
                rid,
                row.task_id,
                pending[rid],
                row.state == Page.State.ERROR,
                [] if row.follow_ups is None else unpack_admissions(row.follow_ups),
                items=row.items,
                cancelled=row.is_cancelled,
                excluded=row.is_excluded,
                depth=row.depth,
            )
            for rid, row in rows.items()
        ]
        frontier.complete(completions)
        mark_targets(frontier, rows.values())
        done += len(completions)
    return done


def replay(frontier: Frontier, generation: int) -> int:
    """Declares a generation dead. Its recorded requests are completed first, so that Redis counts
    every row of the ledger; the rest is released. Returns how many were released. Raises as
    ``Reconciliation.run`` does; nothing is released then."""
    complete_recorded(frontier, frontier.leases.hosts(generation))
    return frontier.leases.replay(generation)


def rows_of(rids: Iterable[bytes]) -> dict[bytes, Page]:
    """The ledger rows of these requests, with the columns that completing them needs."""
    rows = Page.objects.filter(rid__in=[UUID(bytes=rid) for rid in rids])
    return {row.rid.bytes: row for row in rows.only(*FIELDS)}


def mark_targets(frontier: Frontier, rows: Iterable[Page]) -> None:
    """Counts the targets of their redirects as admitted. Targets that have a row are admitted as
    any request, or there would be more rows than requests. Raises as ``Reconciliation.run``
    does."""
    landings = {to[0]: (row, to[1]) for row in rows if (to := landed(row.landing))}
    own = recorded(landings)
    frontier.reservations.follow(
        [
            Target(row.task_id, row.rid.bytes, rid, url)
            for rid, (row, url) in landings.items()
            if rid not in own
        ]
    )


def align(task: Task, frontier: Frontier, counts: Counts, seconds: float = SWEEP) -> None:
    """Applies decisions that were made while Redis was unreachable, or that it forgot. Requests of
    a cancelled task are removed from Redis for at most ``seconds``."""
    cancel = partial(frontier.cancel, seconds=seconds)
    changes: dict[str, Callable[[int], object]] = {
        "running": frontier.resume,
        "paused": frontier.pause,
        "cancelling": cancel,
        "cancelled": cancel,  # but Redis still knows it: requests without a row must not be fetched
    }
    if task.limits_unsent and task.state in (Task.State.RUNNING, Task.State.PAUSED):
        send_limits(frontier, task.pk)
    change = changes.get(task.state)
    if change is None or task.state == counts.state:
        return
    if Task.objects.filter(pk=task.pk, state=task.state).exists():  # it was not changed just now
        change(task.pk)
