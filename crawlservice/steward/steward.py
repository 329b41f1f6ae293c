"""Steward: the chores that need one of us. Every node has one; a lock in Redis says who leads."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from django.db import Error as DatabaseError
from django.db import connection
from redis import RedisError
from redis.exceptions import LockError

from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier import Counts, Frontier
from crawlframe.ledger import LedgerAway, LedgerRefused
from crawlframe.node import messages
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.task_finisher import end_tasks
from crawlservice.connections import installation
from crawlservice.connections.database import migrations
from crawlservice.connections.watch import watch
from crawlservice.ledger.audit import strays
from crawlservice.ledger.cancellation import Settler
from crawlservice.ledger.reconcile import Reconciliation, align, replay
from crawlservice.ledger.recovery import is_whole, renew, uncounted
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Task
from crawlservice.monitoring import lives
from crawlservice.scheduling import schedules
from crawlservice.steward.pruning import Pruner
from crawlservice.steward.sampling import Sampler
from crawlservice.tasks.submit import SWEEP
from crawlservice.webhooks.deliveries import create_deliveries
from crawlservice.webhooks.signal_sender import SignalSender

if TYPE_CHECKING:
    from crawlservice.webhooks.sender import WebhookSender

log = logging.getLogger(__name__)

TURN = 1.0  # seconds between two rounds of chores
MIGRATIONS = 5.0  # seconds between two looks which migrations are applied
LONG = 2.5  # seconds without a round that could replay the dead
LEADER_FOR = 5.0  # seconds a silent leader keeps the lock
STILL = 30.0  # seconds in which a task with requests to claim may stand still unexamined


class Steward:
    """Replays dead generations, ends tasks, brings back what Redis lost, starts what is due, writes
    down how much was done, and deletes what is old."""

    def __init__(self, settings: Settings, frontier: Frontier) -> None:
        self._frontier = frontier
        self._ledger = DjangoLedger()
        self._sampler = Sampler()
        self._lives = lives.LivesMonitor(settings.lease)
        self._pruner = Pruner(frontier.leases.left)
        self._settler = Settler()
        self._settings = settings
        self._webhook_sender: WebhookSender | None = None
        self._signals = SignalSender()
        self._name = f"{settings.key_prefix}:steward"
        self._lock = frontier.store.redis.lock(self._name, timeout=LEADER_FOR, blocking=False)
        self._leading = False
        self._installation = ""
        self._lease = settings.lease
        self._last_good = time.monotonic()  # end of the last round that could replay the dead
        self._patient_until = 0.0
        self._trouble = ""  # what the last round failed of
        self._run: str | None = None  # which life of the server that is
        self._still: dict[int, tuple[Counts, float]] = {}  # what stands still, and since when
        self._beat: Callable[[], object] = lambda: None
        self._send: Callable[[messages.FromSteward], object] = lambda message: None
        self._next_beat = self._next_check = 0.0
        self._migrations = ""  # the mark that the master was told last

    def run(self, channel: messages.FromChildLine) -> None:
        """Does a round every second until the master says retire or is gone."""
        channel.send(messages.StewardReady())
        sending = threading.Lock()

        def send(message: messages.FromSteward) -> None:
            with sending:
                channel.send(message)

        def beat_meanwhile(waits: str) -> None:
            with suppress(ChannelClosed):  # the round that waits finds out
                send(messages.Beat(0, waits))

        self._send, self._beat = send, lambda: send(messages.Beat(0, self._trouble))
        watch(self._settings.database_timeout, beat_meanwhile).start()
        while True:
            try:
                self.tick()
                self._beat()
                readable, _, _ = select.select([channel], [], [], TURN)
                if readable and any(
                    isinstance(message, messages.Retire) for message in channel.receive()
                ):
                    break
            except ChannelClosed:
                return
        self.resign()

    def tick(self) -> None:
        """One round, if it is ours. What fails waits for the next round. All chores need what
        ``_check_nodes`` does; otherwise none holds up another."""
        problems = [self._attempt(self._check_migrations), self._attempt(self._check_nodes)]
        if not problems[-1]:
            if self._leading:
                problems += map(self._attempt, self._chores())
            self._last_good = time.monotonic()
        trouble = "; ".join(dict.fromkeys(filter(None, problems)))
        if trouble and trouble != self._trouble:
            log.warning("chores wait: %s", trouble)
        self._trouble = trouble

    def _attempt(self, chore: Callable[[], object]) -> str:
        """Why it failed; "" when it did not."""
        try:
            chore()
        except (RedisError, DatabaseError, FrontierError, LedgerAway, LedgerRefused) as error:
            connection.close()
            return " ".join(str(error).split()) or type(error).__name__
        return ""

    def _check_nodes(self) -> None:
        # First, for the lock that leads is in Redis.
        self._installation = installation.check(self._frontier, self._installation)
        if self._lead():
            self._check_redis()
            self._replay_dead()

    def _chores(self) -> list[Callable[[], object]]:
        return [
            self._check_tasks,
            lambda: schedules.start_due(self._still_here),
            self._deliver_webhooks,
            self._signals.keep_going,
            self._pruner.tick,
            self._settler.tick,
        ]

    def resign(self) -> None:
        """Lets another steward lead at once."""
        self._signals.stop()
        if self._webhook_sender is not None:
            self._webhook_sender.stop()
        if self._leading:
            try:
                self._lock.release()
            except (LockError, RedisError):
                log.debug("the lock was gone already")
        self._ledger.close()

    def _lead(self) -> bool:
        if self._leading:
            try:
                self._lock.reacquire()
                # This is all that a full Redis takes; it would let nobody renew a lease.
                self._frontier.store.redis.set(f"{self._name}:well", 1, px=round(1000 * LEADER_FOR))
                return True
            except LockError:
                log.info("another steward leads now")
        self._leading = bool(self._lock.acquire())
        if self._leading:
            self._settler = Settler()
        return self._leading

    def _check_migrations(self) -> None:
        """Its supervisor may have a framework that waits for some. SQLite's come by themselves."""
        now = time.monotonic()
        if connection.vendor == "sqlite" or now < self._next_check:
            return
        self._next_check = now + MIGRATIONS
        mark = migrations()
        if mark != self._migrations:
            self._send(messages.Migrations(mark))
            self._migrations = mark

    def _check_redis(self) -> None:
        run = self._frontier.store.redis.info("server").get("run_id")
        if run != self._run:  # it was started again, or another one took over
            if self._run and (self._frontier.audit() or uncounted(self._frontier)):
                self._frontier.eras.doubt()
            self._run = run
        if not is_whole(self._frontier):
            renew(self._frontier, self._still_here)

    def _replay_dead(self) -> None:
        leases = self._frontier.leases.left()
        now = time.monotonic()
        if now - self._last_good > LONG:
            # The living could not renew their leases either, and shall have the time to.
            self._patient_until = now + self._lease
        for generation, left in leases.items():
            if left < 0 and now >= self._patient_until:
                self._still_here()
                held = self._frontier.leases.held([generation])[generation]
                lives.die(generation, held)  # first, so that it never vanishes
                moved = replay(self._frontier, generation)
                log.warning("generation %d is dead: %d requests replayed", generation, moved)
        if now >= self._patient_until:
            self._lives.tick(leases)

    def _check_tasks(self) -> None:
        known = set(self._frontier.open_tasks())
        tasks = {task.pk: task for task in Task.objects.filter(state__in=Task.ACTIVE)}
        found = self._frontier.counts_of(tasks.keys() & known)
        self._examine_still(found)
        until = time.monotonic() + SWEEP
        for pk, counts in found.items():
            self._still_here()
            if counts is None:
                self._restore(tasks[pk])
            else:
                self._steer(tasks[pk], counts, max(0.0, until - time.monotonic()))
        for pk, counts in found.items():
            if counts and counts.may_be_last:
                self._begin_last(tasks[pk])
        self._end(tasks, {pk: counts for pk, counts in found.items() if counts and counts.nr == 0})
        for pk in tasks.keys() - known:
            self._restore(tasks[pk])
        # Ended in the database, but whoever ended them died before it told the frontier. Read
        # again, for some may have been submitted just now.
        left = Task.objects.filter(pk__in=known - tasks.keys()).exclude(state__in=Task.ACTIVE)
        self._frontier.close_tasks(left.values_list("pk", flat=True))
        self._sampler.tick({pk: found.get(pk) for pk in tasks})

    def _steer(self, task: Task, counts: Counts, seconds: float) -> None:
        """``seconds`` are left of this round for what waits of cancelled tasks."""
        align(task, self._frontier, counts, seconds)
        if counts.state == Task.State.CANCELLING and counts.delayed and seconds:
            self._frontier.cancel(task.pk, seconds)  # one in flight went to wait for its retry

    def _examine_still(self, found: dict[int, Counts | None]) -> None:
        """Requests that wait while none is in progress may wait for their hosts' next times; or
        Redis is damaged, so that no claim can see them."""
        now, before = time.monotonic(), self._still
        self._still = {}
        for pk, counts in found.items():
            if counts and counts.state == Task.State.RUNNING and counts.waits:
                last, since = before.get(pk, (counts, now))
                self._still[pk] = counts, since if last == counts else now
        if any(now - since > STILL for _, since in self._still.values()):
            self._still.clear()
            if problems := self._frontier.audit():
                log.error("Redis disagrees with itself: %s", problems[0])
                self._frontier.eras.doubt()

    def _end(self, tasks: dict[int, Task], ready: dict[int, Counts]) -> None:
        if self._frontier.store.partitions > 1:
            # One of them may have lost requests whose parents another completed. Numbers agree
            # then, and nobody has noticed yet. Of a cancelled task the database finds them later.
            ready = {
                pk: counts
                for pk, counts in ready.items()
                if tasks[pk].state == Task.State.CANCELLING or not self._bring_back(tasks[pk])
            }
        ended = end_tasks(self._ledger, self._frontier, ready)
        for pk in ready.keys() - ended:
            if not self._bring_back(tasks[pk]):
                self._end_after_loss(tasks[pk], ready[pk])

    def _begin_last(self, task: Task) -> None:
        """The worker that came to it died, is of an older release, or there are several
        partitions: then counters may agree though requests were lost, as in ``_end``."""
        if self._frontier.store.partitions > 1:
            if not self._frontier.holds_last(task.pk):
                return
            if task.state != Task.State.CANCELLING and self._bring_back(task):
                return
        self._frontier.begin_last(task.pk)

    def _end_after_loss(self, task: Task, counts: Counts) -> None:
        """Redis has done all that the ledger names, and more: the database has lost rows."""
        stray = strays(task)
        if stray and self._ledger.finish({task.pk: counts}, stray):
            self._frontier.close_tasks([task.pk])
            log.error(
                "task %d ended with %d pages that nothing leads to: the database lost the pages "
                "that did, and they were other ones when they were fetched again; the audit names "
                "them",
                task.pk,
                stray,
            )
        else:
            self._distrust(f"the database has lost pages of task {task.pk}")

    def _distrust(self, reason: str) -> None:
        """What was recorded may be gone, and workers drop links that they know to be recorded: all
        start over with what the database has."""
        log.error(
            "%s: was a standby promoted that was behind? It is the truth all the same", reason
        )
        renew(self._frontier, self._still_here, reason)

    def _bring_back(self, task: Task) -> int:
        admitted = Reconciliation(task, self._frontier, self._still_here).run().admitted
        if admitted:
            log.warning("task %d was not complete: %d requests brought back", task.pk, admitted)
        return admitted

    def _restore(self, task: Task) -> None:
        """Makes the frontier know a task that it never got, or lost."""
        # Whoever ends a task tells the database first, so this look comes after that of Redis.
        if not Task.objects.filter(pk=task.pk, state__in=Task.ACTIVE).exists():
            return
        done = Reconciliation(task, self._frontier, self._still_here)
        if Page.objects.filter(task=task).exists():
            if not task.retries:  # Redis knew it, and closed it when it ended
                self._distrust(f"the database has forgotten the end of task {task.pk}")
                return
            # Else nodes fetched again what is about to be completed. It is resumed at the end.
            done.open()
            self._frontier.pause(task.pk)
        done.run()
        log.warning(
            "task %d was not in the frontier; opened with %d requests, %d of them done",
            task.pk,
            done.admitted,
            done.completed,
        )

    def _deliver_webhooks(self) -> None:
        if not create_deliveries():
            return
        if self._webhook_sender is None:
            # Imported here: most nodes never need it, and it takes memory.
            from crawlservice.webhooks.sender import WebhookSender

            self._webhook_sender = WebhookSender(self._settings)
        self._webhook_sender.keep_going()

    def _still_here(self) -> None:
        """In the middle of a long chore: the master and the other stewards need not take over."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + TURN
            self._beat()
            try:
                self._lock.reacquire()
            except LockError:
                log.info("another steward leads now; both bring the same back, once")
