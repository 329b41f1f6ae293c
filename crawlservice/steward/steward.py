"""Steward: cluster chores that one node does. Every node has one; a Redis lock says which leads."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from django.db import connection
from redis import RedisError
from redis.exceptions import LockError

from crawlframe.conf import Settings
from crawlframe.errors import EraChanged
from crawlframe.frontier import Frontier
from crawlframe.node import messages
from crawlframe.node.channel import ChannelClosed
from crawlservice.alerts.monitor import AlertMonitor
from crawlservice.connections import installation
from crawlservice.connections.contained import contained, failures, servers_answer
from crawlservice.connections.other_databases import Migrations
from crawlservice.connections.watch import watch
from crawlservice.hosts.chores import look_after
from crawlservice.ledger.cancellation import Settler
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.ledger.reconcile import replay
from crawlservice.ledger.recovery import is_whole, renew, uncounted
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page
from crawlservice.monitoring import lives
from crawlservice.proxies.chores import ProxyChores
from crawlservice.quality.reader import Bounds
from crawlservice.quality.watch import Watch
from crawlservice.rollouts.refusal import take_back
from crawlservice.scheduling import schedules
from crawlservice.steward.pruning import Pruner
from crawlservice.steward.senders import Senders
from crawlservice.steward.task_chore import TaskChore
from crawlservice.tasks import budgets, bulk_retry
from crawlservice.watches import rounds

log = logging.getLogger(__name__)

TURN = 1.0  # seconds between two rounds of chores
MIGRATIONS = 5.0  # seconds between two checks of the applied migrations
LONG = 2.5  # seconds without a round that could replay dead generations
LEADER_FOR = 5.0  # seconds a silent leader keeps the lock
NEEDED = ("Redis", "dead nodes")  # chores without which others do not begin


class Steward:
    """The chores of a cluster, of which one steward at a time leads most."""

    def __init__(self, settings: Settings, frontier: Frontier) -> None:
        self._frontier = frontier
        self._ledger = DjangoLedger()
        self._lives = lives.LivesMonitor(settings.lease)
        self._pruner = Pruner.of(frontier)
        self._settler = Settler()
        self._alerts = AlertMonitor(frontier)
        items, pages = CommitOrder(), CommitOrder(Page)
        self._quality = Watch(lambda: Bounds(items.settled(), pages.settled()), take_back)
        self._settings, self._senders = settings, Senders(settings)
        self._proxies = ProxyChores(settings, frontier)
        self._name = f"{settings.key_prefix}:steward"
        self._lock = frontier.store.redis.lock(self._name, timeout=LEADER_FOR, blocking=False)
        self._leading, self._installation = False, ""
        self._lease = settings.lease
        self._last_good = time.monotonic()  # end of the last round that could replay the dead
        self._patient_until, self._trouble = 0.0, ""  # why the last round failed
        self._run: str | None = None  # the server's run_id
        self._tasks = TaskChore(frontier, self._ledger, self._still_here)
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
                send(messages.Beat(0, waits, failures.lately()))

        self._send, self._beat = send, lambda: send(self._news())
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

    def _news(self) -> messages.Beat:
        known = self._trouble
        named = [text for text in failures.named() if text.partition(": ")[2] not in known]
        return messages.Beat(0, "; ".join(filter(None, (known, *named))), failures.lately())

    def tick(self) -> None:
        """One round, if this steward leads. What fails waits for the next round. All chores need
        Redis to be whole, but the look for alerts; apart from that, none blocks another."""
        problems = [
            self._attempt("segments of pages", self._senders.keep_segments),
            self._attempt("migrations", self._check_migrations),
            self._attempt("the election", self._elect),
        ]
        if not problems[-1]:
            whole = True
            for name, chore in self._chores().items() if self._leading else ():
                if whole or name == "alerts":
                    problems.append(self._attempt(name, chore))
                    whole = whole and not (problems[-1] and name in NEEDED)
            if whole:
                self._last_good = time.monotonic()
        trouble = "; ".join(dict.fromkeys(filter(None, problems)))
        if trouble and trouble != self._trouble:
            log.warning("chores wait: %s", trouble)
        self._trouble = trouble

    def _attempt(self, name: str, chore: Callable[[], object]) -> str:
        """Why it failed; "" if it did not."""
        try:
            chore()
        except Exception as error:
            connection.close()
            if not isinstance(error, EraChanged) and servers_answer():
                failures.add(name, error)
            return " ".join(str(error).split()) or type(error).__name__
        return ""

    def _elect(self) -> None:
        # First, because the lock that decides who leads is in Redis.
        self._installation = installation.check(self._frontier, self._installation)
        self._lead()

    def _chores(self) -> dict[str, Callable[[], object]]:
        """Those of the leader, by name, in their order. A row of one that fails is contained."""
        return {
            "Redis": self._check_redis,
            "dead nodes": self._replay_dead,
            "time limits": budgets.close_overdue,
            "tasks": self._tasks.tick,
            "hosts": lambda: look_after(self._frontier),
            "proxies": self._proxies.tick,
            "schedules": partial(schedules.start_due, self._still_here),
            "watches": partial(rounds.tick, self._still_here),
            "bulk retries": partial(bulk_retry.work, self._still_here),
            "webhooks": self._senders.send_webhooks,
            "signals": self._senders.send_signals,
            "alerts": lambda: self._senders.send_alerts(self._alerts.tick(self._tasks.counts)),
            "exports": self._senders.export,
            "rows for other databases": self._senders.deliver_rows,
            "pruning": self._pruner.tick,
            "cancelled requests": self._settler.tick,
            "quality": lambda: self._quality.tick(self._tasks.counts),
        }

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

    def _lead(self) -> None:
        if self._leading:
            try:
                self._lock.reacquire()
                # A full Redis accepts that, but no renewal of a lease, and not this write.
                self._frontier.store.redis.set(f"{self._name}:well", 1, px=round(1000 * LEADER_FOR))
                return
            except LockError:
                log.info("another steward leads now")
        self._leading = bool(self._lock.acquire())
        if self._leading:
            self._settler, self._alerts = Settler(), AlertMonitor(self._frontier)

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
                with contained(f"generation {generation}"):
                    self._replay(generation)
        if now >= self._patient_until:
            self._lives.tick(leases)

    def _replay(self, generation: int) -> None:
        held = self._frontier.leases.held([generation])[generation]
        lives.die(generation, held)  # first, so that it never disappears from the list
        moved = replay(self._frontier, generation)
        log.warning("generation %d is dead: %d requests replayed", generation, moved)

    def _still_here(self) -> None:
        """Called during a long chore, so that neither the master nor other stewards take over."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + TURN
            with suppress(ChannelClosed):  # the next turn finds out
                self._beat()
            try:
                self._lock.reacquire()
            except LockError:
                log.info("another steward leads now; both restore the same requests, once")
