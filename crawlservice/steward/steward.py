"""Steward: does the chores of a node and, if it leads, the chores of the cluster. Every node has
one; a lock in Redis decides which leads."""

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
from crawlservice.chores.chore import ChoreContext, Job, chores
from crawlservice.connections import installation
from crawlservice.connections.contained import FRESH_SECONDS, failures, is_away, servers_answer
from crawlservice.connections.presence import Presence
from crawlservice.connections.watch import watch

log = logging.getLogger(__name__)

TURN = 1.0  # seconds between two rounds of chores
LEADER_FOR = 5.0  # seconds a silent leader keeps the lock
# Renews it. A full Redis would extend its time, but it refuses to write it, as it does leases.
RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
"""


class Steward:
    """The chores of a cluster, most of them run by the one steward that leads."""

    def __init__(self, settings: Settings, frontier: Frontier) -> None:
        self._frontier = frontier
        self.context = ChoreContext(settings, frontier, self._still_here, self._send)
        self._everywhere: list[Job] = []
        self._jobs: list[Job] = []  # of the leader
        for chore in chores():
            (self._everywhere if chore.everywhere else self._jobs).append(Job(chore))
        self._presence = Presence({job.chore.name: job.chore.used for job in self._jobs})
        self._name = f"{settings.key_prefix}:steward"
        self._lock = frontier.store.redis.lock(self._name, timeout=LEADER_FOR, blocking=False)
        self._renew = frontier.store.redis.register_script(RENEW)
        self._leading, self._installation = False, ""
        self._trouble = ""  # why the last round failed
        self._lost: dict[str, float] = {}  # chores that lost a connection to a server, and when
        self._channel: messages.FromChildLine | None = None
        self._sending = threading.Lock()
        self._next_beat = 0.0

    def run(self, channel: messages.FromChildLine) -> None:
        """Does a round every second until the master says retire or is gone."""
        channel.send(messages.ServiceReady())
        self._channel = channel

        def beat_meanwhile(waits: str) -> None:
            with suppress(ChannelClosed):  # the round that waits finds out
                self._send(messages.Beat(0, waits, failures.lately()))

        watch(self.context.settings.database_timeout, beat_meanwhile).start()
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

    def _send(self, message: messages.FromService) -> None:
        if self._channel is not None:
            with self._sending:
                self._channel.send(message)

    def _beat(self) -> None:
        self._send(self._news())

    def _news(self) -> messages.Beat:
        known = self._trouble
        named = [text for text in failures.named() if text.partition(": ")[2] not in known]
        return messages.Beat(0, "; ".join(filter(None, (known, *named))), failures.lately())

    def tick(self) -> None:
        """One round. A chore that fails waits for the next round, and blocks only the chores that
        need it."""
        problems = [self._attempt(job) for job in self._everywhere]
        problems.append(self._contain("the election", self._elect))
        if not problems[-1]:
            failed = self._lead_round() if self._leading else {}
            problems += failed.values()
            if not any(job.chore.needed for job in self._jobs if job.chore.name in failed):
                self.context.last_whole = time.monotonic()
        trouble = "; ".join(dict.fromkeys(filter(None, problems)))
        if trouble and trouble != self._trouble:
            log.warning("chores wait: %s", trouble)
        self._trouble = trouble

    def job(self, name: str) -> Job:
        """A chore by its name."""
        return next(job for job in [*self._everywhere, *self._jobs] if job.chore.name == name)

    def _lead_round(self) -> dict[str, str]:
        """Does the chores of the leader. Returns why some failed, by their names."""
        failed: dict[str, str] = {}
        whole, idle = True, None
        for job in self._jobs:
            name, needed = job.chore.name, job.chore.needed
            if not (whole or job.chore.independent):
                continue
            if idle is None and job.chore.used:  # after the chore of tasks, which ends some
                idle = self._presence.absent()
            if problem := self._attempt(job, used=name not in (idle or ())):
                failed[name] = problem
                whole = whole and not needed
        return failed

    def _attempt(self, job: Job, used: bool = True) -> str:
        return self._contain(job.chore.name, partial(job.run, self.context, used))

    def _contain(self, name: str, chore: Callable[[], object]) -> str:
        """Why it failed; "" if it did not."""
        try:
            chore()
        except Exception as error:
            connection.close()
            if not isinstance(error, EraChanged) and servers_answer() and self._counts(name, error):
                failures.add(name, error)
            return " ".join(str(error).split()) or type(error).__name__
        return ""

    def _counts(self, name: str, error: Exception) -> bool:
        """Whether it is the chore's own failure: one connection may be lost by itself, but not a
        second one soon after."""
        before, self._lost[name] = self._lost.get(name, -FRESH_SECONDS), time.monotonic()
        return not is_away(error) or self._lost[name] - before < FRESH_SECONDS

    def _elect(self) -> None:
        # First, because the leader's lock is in Redis.
        self._installation = installation.check(self._frontier, self._installation)
        if self._leading:
            lease = self._lock.local.token, round(1000 * LEADER_FOR)
            if self._renew(keys=[self._name], args=lease):
                return
            self._leading = False  # a Redis that refuses writes lets nobody lead
            log.info("this steward leads no longer: its lock has expired")
        self._leading = bool(self._lock.acquire())
        if self._leading:
            for job in self._jobs:
                job.begin_term()

    def resign(self) -> None:
        """Lets another steward lead at once."""
        for job in (*self._everywhere, *self._jobs):
            job.stop()
        if self._leading:
            self._leading = False
            with suppress(LockError, RedisError):  # it has gone already
                self._lock.release()

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
