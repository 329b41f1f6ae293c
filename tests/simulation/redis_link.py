"""RedisLink: the way from the processes to the simulated Redis, with the faults of networks and
servers."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from redis.exceptions import ConnectionError, TimeoutError

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
        self.fates: deque[str] = deque()  # of the next calls
        self._calls: Counter[str] = Counter()
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
        # Rare scripts are struck as often as common ones.
        kind = str(command[1] if command[0] == "EVALSHA" else command[0])
        self._calls[kind] += 1
        struck = self.fates and scheduler.random.random() < OFTEN / self._calls[kind]
        fate = self.fates.popleft() if struck else ""
        if scheduler.now < self.silent_until:
            fate = "lose request"
        if fate:
            self.note(f"{fate}: {command[0]!r}")
        scheduler.wait((1.0 if fate == "slow" else LATENCY) * scheduler.random.random())
        if fate == "lose request":
            self._time_out()
        if fate == "late":
            self._later(command)
            self._time_out()
        self.store.full = scheduler.now < self.full_until
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

    def _later(self, command: Any) -> None:
        """The network delivers it when its sender has given up."""
        scheduler = SYSTEM.scheduler
        delay = TIMEOUT + 3.0 * scheduler.random.random()

        def run() -> None:
            scheduler.wait(delay)
            self._execute(command)

        assert SYSTEM.network is not None
        scheduler.thread(SYSTEM.network, "packet", run)

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
        while self.snapshots and self.snapshots[-1][0] > then:
            self.snapshots.pop()
        return now - then
