"""Steward: cluster chores that one node does. Every node has one; a Redis lock says which leads."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

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
from crawlservice.alerts.monitor import AlertMonitor
from crawlservice.connections import installation
from crawlservice.connections.other_databases import Migrations
from crawlservice.connections.watch import watch
from crawlservice.hosts.chores import look_after
from crawlservice.ledger.audit import strays
from crawlservice.ledger.cancellation import Settler
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.reconcile import Reconciliation, align, replay
from crawlservice.ledger.recovery import is_whole, renew, uncounted
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Task
from crawlservice.monitoring import lives
from crawlservice.pages.dictionaries import Trainer
from crawlservice.proxies.chores import ProxyChores
from crawlservice.quality.reader import Bounds
from crawlservice.quality.watch import Watch
from crawlservice.rollouts.refusal import take_back
from crawlservice.scheduling import schedules
from crawlservice.steward.layers import LayerSteps
from crawlservice.steward.pruning import Pruner
from crawlservice.steward.sampling import Sampler
from crawlservice.steward.senders import Senders
from crawlservice.steward.stillness import Stillness
from crawlservice.tasks import budgets, bulk_retry
from crawlservice.tasks.submit import SWEEP
from crawlservice.watches import rounds

log = logging.getLogger(__name__)

TURN = 1.0  # seconds between two rounds of chores
MIGRATIONS = 5.0  # seconds between two checks of the applied migrations
LONG = 2.5  # seconds without a round that could replay dead generations
LEADER_FOR = 5.0  # seconds a silent leader keeps the lock


class Steward:
    """The chores of a cluster, of which one steward at a time leads most."""

    def __init__(self, settings: Settings, frontier: Frontier) -> None:
        self._frontier = frontier
        self._ledger = DjangoLedger()
        self._sampler = Sampler()
        self._lives = lives.LivesMonitor(settings.lease)
        self._pruner = Pruner.of(frontier)
        self._settler = Settler()
        self._alerts = AlertMonitor(frontier)
        items, pages = CommitOrder(), CommitOrder(Page)
        self._quality = Watch(lambda: Bounds(items.settled(), pages.settled()), take_back)
        self._counts: dict[int, Counts | None] = {}  # of the active tasks, in this round
        self._settings, self._senders = settings, Senders(settings)
        self._proxies, self._page_dictionaries = ProxyChores(settings, frontier), Trainer()
        self._name = f"{settings.key_prefix}:steward"
        self._lock = frontier.store.redis.lock(self._name, timeout=LEADER_FOR, blocking=False)
        self._leading, self._installation = False, ""
        self._lease = settings.lease
        self._last_good = time.monotonic()  # end of the last round that could replay the dead
        self._patient_until, self._trouble = 0.0, ""  # why the last round failed
        self._run: str | None = None  # the server's run_id
        self._stillness = Stillness(frontier)
        self._layers = LayerSteps(frontier, self._bring_back, self._distrust)
        self._beat: Callable[[], object] = lambda: None
        self._send: Callable[[messages.FromService], object] = lambda message: None
        self._next_beat = self._next_check = 0.0
        self._applied, self._migrations = Migrations(), ""  # the mark last sent to the master

    def run(self, channel: messages.FromChildLine) -> None:
        """Does a round every second until the master says retire or is gone."""
        channel.send(messages.ServiceReady())
        sending = threading.Lock()

        def send(message: messages.FromService) -> None:
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
                if readable and any(isinstance(one, messages.Retire) for one in channel.receive()):
                    break
            except ChannelClosed:
                return
        self.resign()

    def tick(self) -> None:
        """One round, if this steward leads. What fails waits for the next round. All chores need
        ``_check_nodes``; apart from that, none blocks another."""
        self._senders.keep_segments()
        problems = [*map(self._attempt, (self._check_migrations, self._check_nodes))]
        if not problems[-1]:
            if self._leading:
                problems += map(self._attempt, self._chores())
            self._last_good = time.monotonic()
        trouble = "; ".join(dict.fromkeys(filter(None, problems)))
        if trouble and trouble != self._trouble:
            log.warning("chores wait: %s", trouble)
        self._trouble = trouble

    def _attempt(self, chore: Callable[[], object]) -> str:
        """Why it failed; "" if it did not."""
        try:
            chore()
        except (RedisError, DatabaseError, FrontierError, LedgerAway, LedgerRefused) as error:
            connection.close()
            return " ".join(str(error).split()) or type(error).__name__
        return ""

    def _check_nodes(self) -> None:
        # First, because the lock that decides who leads is in Redis.
        self._installation = installation.check(self._frontier, self._installation)
        if self._lead():
            self._check_redis()
            self._replay_dead()

    def _chores(self) -> list[Callable[[], object]]:
        return [
            budgets.close_overdue,
            self._check_tasks,
            lambda: look_after(self._frontier),
            self._proxies.tick,
            partial(schedules.start_due, self._still_here),
            partial(rounds.tick, self._still_here),
            partial(bulk_retry.work, self._still_here),
            self._senders.send_webhooks,
            self._senders.send_signals,
            lambda: self._senders.send_alerts(self._alerts.tick(self._counts)),
            self._senders.export,
            self._senders.deliver_rows,
            self._pruner.tick,
            self._settler.tick,
            lambda: self._quality.tick(self._counts),
            self._page_dictionaries.tick,
        ]

    def resign(self) -> None:
        """Lets another steward lead at once."""
        self._senders.stop()
        self._proxies.stop()
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
                # A full Redis accepts that, but no renewal of a lease, and not this write.
                self._frontier.store.redis.set(f"{self._name}:well", 1, px=round(1000 * LEADER_FOR))
                return True
            except LockError:
                log.info("another steward leads now")
        self._leading = bool(self._lock.acquire())
        if self._leading:
            self._settler, self._alerts = Settler(), AlertMonitor(self._frontier)
        return self._leading

    def _check_migrations(self) -> None:
        """The framework of its supervisor may wait for some."""
        now = time.monotonic()
        if now < self._next_check or not self._applied.matter:
            return
        self._next_check = now + MIGRATIONS
        mark = self._applied.mark()
        if mark != self._migrations:
            self._send(messages.Migrations(mark))
            self._migrations = mark

    def _check_redis(self) -> None:
        run = self._frontier.store.redis.info("server").get("run_id")
        if run != self._run:  # it was restarted, or another server took over
            if self._run and (self._frontier.audit() or uncounted(self._frontier)):
                self._frontier.eras.doubt()
            self._run = run
        if not is_whole(self._frontier):
            renew(self._frontier, self._still_here)

    def _replay_dead(self) -> None:
        leases = self._frontier.leases.left()
        now = time.monotonic()
        if now - self._last_good > LONG:
            # Living nodes could not renew their leases either, and get the time to do so.
            self._patient_until = now + self._lease
        for generation, left in leases.items():
            if left < 0 and now >= self._patient_until:
                self._still_here()
                held = self._frontier.leases.held([generation])[generation]
                lives.die(generation, held)  # first, so that it never disappears from the list
                moved = replay(self._frontier, generation)
                log.warning("generation %d is dead: %d requests replayed", generation, moved)
        if now >= self._patient_until:
            self._lives.tick(leases)

    def _check_tasks(self) -> None:
        known = set(self._frontier.open_tasks())
        tasks = {task.pk: task for task in Task.objects.filter(state__in=Task.ACTIVE)}
        self._counts = found = self._frontier.counts_of(tasks.keys() & known)
        self._stillness.examine(found)
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
        # Ended in the database, but the process that ended them died before it updated the
        # frontier. Read again, because some may have been submitted just now.
        left = Task.objects.filter(pk__in=known - tasks.keys()).exclude(state__in=Task.ACTIVE)
        self._frontier.close_tasks(left.values_list("pk", flat=True))
        self._sampler.tick({pk: found.get(pk) for pk in tasks})

    def _steer(self, task: Task, counts: Counts, seconds: float) -> None:
        """``seconds`` are left of this round for requests of cancelled tasks."""
        align(task, self._frontier, counts, seconds)
        if counts.state == Task.State.CANCELLING and counts.delayed and seconds:
            self._frontier.cancel(task.pk, seconds)  # one in flight was delayed for its retry
        self._layers.tick(task, counts)

    def _end(self, tasks: dict[int, Task], ready: dict[int, Counts]) -> None:
        if self._frontier.store.partitions > 1:
            # A task may have lost requests whose parents another process completed. The numbers
            # agree, so nobody has noticed. For a cancelled task the database finds them later.
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
        if stray and self._ledger.finish({task.pk: counts}, stray):
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

    def _distrust(self, reason: str) -> None:
        """Makes all nodes start over with what the database has: recorded rows may be gone, and
        workers drop links that they know to be recorded."""
        log.error("%s; was a standby promoted that lagged behind? Its data is used anyway", reason)
        renew(self._frontier, self._still_here, reason)

    def _bring_back(self, task: Task) -> int:
        admitted = Reconciliation(task, self._frontier, self._still_here).run().admitted
        if admitted:
            log.warning("task %d was not complete: %d requests brought back", task.pk, admitted)
        return admitted

    def _restore(self, task: Task) -> None:
        """Makes the frontier know a task that it never got, or lost."""
        # A task is ended in the database first, so this check comes after that of Redis.
        if not Task.objects.filter(pk=task.pk, state__in=Task.ACTIVE).exists():
            return
        done = Reconciliation(task, self._frontier, self._still_here)
        if Page.objects.filter(task=task).exists():
            if not task.retries:  # Redis knew it, and closed it when it ended
                self._distrust(f"the database has forgotten the end of task {task.pk}")
                return
            # Otherwise nodes fetch again what is about to be completed. Resumed at the end.
            done.open()
            self._frontier.pause(task.pk)
        done.run()
        log.warning(
            "task %d was not in the frontier; opened with %d requests, %d of them done",
            task.pk,
            done.admitted,
            done.completed,
        )

    def _still_here(self) -> None:
        """Called during a long chore, so that neither the master nor other stewards take over."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + TURN
            self._beat()
            try:
                self._lock.reacquire()
            except LockError:
                log.info("another steward leads now; both restore the same requests, once")
