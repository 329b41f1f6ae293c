"""RedisLink: the way from the processes to the simulated Redis, with the faults of networks and
servers."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from hashlib import sha1
from typing import Any

from redis.exceptions import ConnectionError, TimeoutError

from crawlframe.frontier.client import scripts
from tests.simulation.interpreter import SYSTEM
from tests.simulation.redis.client import Link
from tests.simulation.redis.store import Store
from tests.simulation.redis.values import ReplyError

TIMEOUT = 4.0  # seconds, as the product's clients wait
SNAPSHOT_EVERY = 0.5  # seconds
SNAPSHOTS = 40
LATENCY = 0.0006  # seconds of a call at most
OFTEN = 4  # calls of one kind until it is struck less often


class RedisLink(Link):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.away_until = self.silent_until = self.full_until = 0.0
        self.fates: list[tuple[str, str]] = []  # of the next calls, and of which verb, "" of any
        self._verbs = {sha1(scripts.source(v).encode()).hexdigest(): v for v in scripts.verbs()}
        self._calls: Counter[str] = Counter()
        self._late: list[tuple[str, Any]] = []  # calls that arrive, of which kinds
        self.snapshots: deque[tuple[float, Any]] = deque(maxlen=SNAPSHOTS)
        self._next_snapshot = math.inf
        self.note: Callable[[str], None] = lambda text: None

    def keep_snapshots(self) -> None:
        self._next_snapshot = 0.0

    def deliver(self, command: Any) -> Any:
        """The reply to a command. Raises redis.RedisError."""
        scheduler = SYSTEM.scheduler
        if SYSTEM.thread is None:
            return self._execute(command)
        if scheduler.now >= self._next_snapshot:
            self._next_snapshot = scheduler.now + SNAPSHOT_EVERY
            self.snapshots.append((scheduler.now, self.store.snapshot()))
        if scheduler.now < self.away_until:
            scheduler.wait(0.001)
            error = ConnectionError("Error 111 connecting to the simulated Redis. Refused")
            error.__context__ = ConnectionRefusedError(111, "Connection refused")
            raise error
        kind = self._verbs.get(command[1], "") if command[0] == "EVALSHA" else str(command[0])
        fate = self._fate_of(kind)
        if scheduler.now < self.silent_until:
            fate = "lose request"
        if fate:
            self.note(f"{fate}: {kind}")
        scheduler.wait((1.0 if fate == "slow" else LATENCY) * scheduler.random.random())
        if fate == "lose request":
            self._time_out()
        if fate in ("late", "outlive"):
            least = TIMEOUT if fate == "late" else 0.5
            self._later((kind, command), least + 3.0 * scheduler.random.random())
            sender = SYSTEM.process
            if fate == "outlive" and sender is not None and sender.parent is not None:
                scheduler.kill(sender)
            self._time_out()
        self.store.full = scheduler.now < self.full_until
        self._arrive(kind)
        reply = self._execute(command)
        if fate == "lose answer":
            self._time_out()
        if fate == "reset":
            raise ConnectionError("Connection reset by peer")
        scheduler.wait(LATENCY * scheduler.random.random())
        return reply

    def _execute(self, command: Any) -> Any:
        try:
            return self.store.execute(command)
        except ReplyError as error:
            return error

    def _time_out(self) -> None:
        SYSTEM.scheduler.wait(TIMEOUT)
        raise TimeoutError("Timeout reading from socket")

    def _fate_of(self, kind: str) -> str:
        """What happens to a call; rare ones are struck as often as common ones."""
        self._calls[kind] += 1
        roll = SYSTEM.scheduler.random.random() if self.fates else 1.0
        for one in self.fates:
            fate, verb = one
            if roll < 0.5 if verb == kind else not verb and roll < OFTEN / self._calls[kind]:
                self.fates.remove(one)
                return fate
        return ""

    def _later(self, late: tuple[str, Any], delay: float) -> None:
        """The network delivers a call when its sender has given up, or is dead: a claim before the
        next one, so that it gets what that would have had."""
        scheduler = SYSTEM.scheduler

        def run() -> None:
            scheduler.wait(delay)
            self._late.append(late)
            scheduler.wait(2.0 if late[0] == "claim" else 0.0)
            self._arrive(late[0])

        assert SYSTEM.network is not None
        scheduler.thread(SYSTEM.network, "packet", run)

    def _arrive(self, kind: str) -> None:
        for late in [one for one in self._late if one[0] == kind]:
            self._late.remove(late)
            self.note(f"arrives late: {kind}")
            self._execute(late[1])

    def fail_over(self, lag: float, pause: float) -> float:
        """A replica that lags by some seconds takes over after a pause. Returns its real lag."""
        self.away_until = SYSTEM.scheduler.now + pause
        return self.go_back(lag)

    def go_back(self, seconds: float) -> float:
        """Sets the store back to the snapshot that old. Returns its age."""
        now = SYSTEM.scheduler.now
        older = [one for one in self.snapshots if now - one[0] >= seconds]
        if not older:
            return 0.0
        then, snapshot = older[-1]
        self.store.restore(snapshot)
        self.store.restart()
        while self.snapshots and self.snapshots[-1][0] > then:
            self.snapshots.pop()
        return now - then
