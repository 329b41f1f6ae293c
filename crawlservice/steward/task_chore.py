"""TaskChore: the leading steward's work on active tasks: it makes the frontier agree with the
database, and ends tasks that have nothing left."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from django.db.models import Exists, OuterRef, Q

from crawlframe.errors import FrontierError
from crawlframe.frontier import Counts, Frontier
from crawlframe.node.task_finisher import end_tasks
from crawlservice.chores.chore import ChoreContext
from crawlservice.connections.contained import contained, failures
from crawlservice.ledger.audit import strays
from crawlservice.ledger.reconcile import Reconciliation, align
from crawlservice.ledger.recovery import ERAS, is_whole, renew, repeats
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Task
from crawlservice.steward.layers import LayerSteps
from crawlservice.steward.sampling import Sampler
from crawlservice.tasks.submit import SWEEP

log = logging.getLogger(__name__)
OPEN_SECONDS = 10.0  # seconds that the submitter of a task has to open it in the frontier
STALL = 30.0  # seconds without progress after which a task with requests to claim is examined


class TaskChore:
    """The chore of tasks, which gets the counts of the active tasks in each round."""

    def __init__(self, steward: ChoreContext) -> None:
        self._steward = steward
        self._frontier, self._ledger = steward.frontier, DjangoLedger()
        self._still_here = steward.still_here
        self._sampler, self._stillness = Sampler(), Stillness(steward.frontier)
        self._layers = LayerSteps(steward.frontier, self._bring_back, self._distrust)
        self._missing: dict[int, float] = {}  # tasks that the frontier does not know, since when

    def tick(self) -> None:
        """One round. Raises redis.RedisError, FrontierError and django.db.Error."""
        known = set(self._frontier.open_tasks())
        tasks = {task.pk: task for task in Task.objects.filter(state__in=Task.ACTIVE)}
        self._steward.counts = found = self._frontier.counts_of(tasks.keys() & known)
        self._stillness.examine(found)
        until = time.monotonic() + SWEEP
        for pk, counts in found.items():
            self._still_here()
            if counts is not None:
                with contained(f"task {pk}"):
                    task = tasks[pk]
                    seconds = max(0.0, until - time.monotonic())
                    align(task, self._frontier, counts, seconds)
                    if counts.state == Task.State.CANCELLING and counts.delayed and seconds:
                        self._frontier.cancel(
                            task.pk, seconds
                        )  # one in flight was delayed for its retry
                    self._layers.tick(task, counts)
                    if counts.may_be_last:
                        self._begin_last(tasks[pk])
        self._end(tasks, {pk: counts for pk, counts in found.items() if counts and counts.nr == 0})
        for pk in self._lost([pk for pk in tasks if found.get(pk) is None]):
            with contained(f"task {pk}"):
                self._restore(tasks[pk])
        # Ended in the database, but the process that ended them died before it updated the
        # frontier. Read again, because some may have been submitted just now.
        if unknown := known - tasks.keys():
            left = Task.objects.filter(pk__in=unknown).exclude(state__in=Task.ACTIVE)
            self._frontier.close_tasks(left.values_list("pk", flat=True))
        self._sampler.tick({pk: found.get(pk) for pk in tasks})

    def stop(self) -> None:
        self._ledger.close()

    # -- ends -------------------------------------------------------------------------------------

    def _end(self, tasks: Mapping[int, Task], found: Mapping[int, Counts]) -> None:
        ready: dict[int, Counts] = {}
        for pk, counts in found.items():
            with contained(f"task {pk}"):
                # With several partitions a task may have lost requests whose parents another
                # process completed. The numbers agree, so it is unnoticed. For a cancelled task
                # the database finds them later.
                whole = tasks[pk].state == Task.State.CANCELLING
                if self._frontier.store.partitions == 1 or whole or not self._bring_back(tasks[pk]):
                    ready[pk] = counts
        ended: set[int] = set()
        try:
            ended |= end_tasks(self._ledger, self._frontier, ready)
        except Exception:  # perhaps because of one of them
            for pk in [*ready]:
                with contained(f"task {pk}") as failed:
                    ended |= end_tasks(self._ledger, self._frontier, {pk: ready[pk]})
                if failed:
                    del ready[pk]
        for pk in ready.keys() - ended:
            with contained(f"task {pk}"):
                if not self._bring_back(tasks[pk]):
                    self._end_after_loss(tasks[pk], ready[pk])

    def _begin_last(self, task: Task) -> None:
        """Needed if the worker that came to it died or is of an older release, or with several
        partitions: counters may agree there though requests were lost, as in ``_end``."""
        if self._frontier.store.partitions > 1:
            holds = self._frontier.holds_last(task.pk)
            if not holds or (task.state != Task.State.CANCELLING and self._bring_back(task)):
                return
        self._frontier.begin_last(task.pk)

    def _end_after_loss(self, task: Task, counts: Counts) -> None:
        """Redis has completed more than the ledger names: the database has lost rows."""
        stray = strays(task)
        if stray and self._ledger.tasks.finish({task.pk: counts}, stray):
            self._frontier.close_tasks([task.pk])
            log.error(
                "task %d ended with %d pages that nothing leads to: the database lost the pages "
                "that led to them, which differed when they were fetched again; the audit names "
                "them",
                task.pk,
                stray,
            )
        else:
            self._distrust(f"the database has lost pages of task {task.pk}")

    # -- losses -----------------------------------------------------------------------------------

    def _distrust(self, reason: str) -> bool:
        """Makes all nodes start over from the database: recorded rows may be gone, and workers drop
        links that they know to be recorded. Returns False, and does nothing, if that has been tried
        too often lately."""
        if repeats():
            text = f"{reason}, once more after {ERAS} eras: Redis is not filled again now"
            failures.add("the recovery", FrontierError(text))
            return False
        log.error("%s; was a standby promoted that lagged behind? Its data is used anyway", reason)
        renew(self._frontier, self._still_here, reason)
        return True

    def _bring_back(self, task: Task) -> int:
        admitted = Reconciliation(task, self._frontier, self._still_here).run().admitted
        if admitted:
            log.warning("task %d was not complete: %d requests brought back", task.pk, admitted)
        return admitted

    def _lost(self, missing: list[int]) -> list[int]:
        """Tasks missing in the frontier that are not being opened now: they were retried, paused or
        cancelled, have pages, or have been missing for long."""
        now = time.monotonic()
        self._missing = {pk: self._missing.get(pk, now) for pk in missing}
        if not missing:
            return []
        pages = Exists(Page.objects.filter(task=OuterRef("pk")))
        old = pages | Q(retries__gt=0) | ~Q(state=Task.State.RUNNING)
        known = {*Task.objects.filter(old, pk__in=missing).values_list("pk", flat=True)}
        return [pk for pk, at in self._missing.items() if pk in known or now - at >= OPEN_SECONDS]

    def _restore(self, task: Task) -> None:
        """Makes the frontier know a task that it never got, or lost."""
        self._still_here()
        # In this order. The pages come after the task was opened, and it is closed after the
        # database has ended it: so if it has pages, was closed, and is active, its end is lost.
        pages = Page.objects.filter(task=task).exists()
        if self._frontier.counts(task.pk) is not None:
            return
        now = Task.objects.filter(pk=task.pk, state__in=Task.ACTIVE).first()
        if now is None or not is_whole(self._frontier):
            return
        done = Reconciliation(now, self._frontier, self._still_here)
        if pages:
            lost = f"the database has forgotten the end of task {task.pk}"
            if not now.retries and self._distrust(lost):
                return
            # Otherwise nodes fetch again requests that are about to be completed. Resumed at the
            # end.
            done.open()
            self._frontier.pause(task.pk)
        done.run()
        log.warning(
            "task %d was not in the frontier; opened with %d requests, %d of them done",
            task.pk,
            done.admitted,
            done.completed,
        )


class Stillness:
    """Requests that wait while none is in progress may be kept back by the gate; or Redis is
    damaged, so that no claim can see them."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._still: dict[int, tuple[Counts, float]] = {}  # tasks without progress, and since when

    def examine(self, found: Mapping[int, Counts | None]) -> None:
        """Doubts the data in Redis if a task has long been still and an audit finds something.
        Raises redis.RedisError and FrontierError."""
        now, before = time.monotonic(), self._still
        self._still = {}
        for pk, counts in found.items():
            if counts and counts.state == Task.State.RUNNING and counts.waits:
                last, since = before.get(pk, (counts, now))
                self._still[pk] = counts, since if last == counts else now
        long = {pk: counts for pk, (counts, since) in self._still.items() if now - since > STALL}
        if long.keys() - self._frontier.waits.of(long).keys():
            self._still.clear()
            if problems := self._frontier.audit():
                log.error("Redis is inconsistent: %s", problems[0])
                self._frontier.eras.doubt()
