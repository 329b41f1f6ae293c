"""Isolation: requests that are blamed for the death of a worker, or with which several nodes died,
run one at a time in a worker that runs nothing else. If it dies, they are the cause."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from crawlframe.frontier import Claim, Claimed, GivenBack
from crawlframe.frontier.client.records import TaskView
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import Run

LINE = 2  # requests that wait here; each holds a slot of its host
RECLAIM_MS = 500  # until requests without room may be claimed again
STALE_SECONDS = 2.0  # seconds for which the task states of a claim are considered current
IDLE_FOR = 10.0  # seconds after the last such request until their worker ends


class _Waiting(NamedTuple):
    request: Claimed
    view: TaskView
    since: float  # time.monotonic() of its claim


class Isolation:
    """The isolated requests of one master. ``defer`` is called with (rid, host, milliseconds) of
    held requests that must wait in the frontier, for this node or another. ``now`` is
    time.monotonic()."""

    def __init__(self, pool: WorkerPool, defer: Callable[[list[GivenBack]], None]) -> None:
        self._pool = pool
        self._defer = defer
        self._line: deque[_Waiting] = deque()
        self._idle_at = 0.0  # time.monotonic() from which their worker is not needed

    @property
    def held(self) -> set[bytes]:
        """The rids of the requests that wait here."""
        return {waiting.request.rid for waiting in self._line}

    def take(self, claim: Claim, now: float) -> list[Claimed]:
        """Takes the requests that must run alone. Returns the others."""
        alone = [request for request in claim.requests if request.alone]
        if not alone:
            return claim.requests
        room = max(0, LINE - len(self._line))
        self._line += [_Waiting(one, claim.tasks[one.task], now) for one in alone[:room]]
        self._put_off(alone[room:])
        return [request for request in claim.requests if not request.alone]

    def tick(self, now: float) -> None:
        """Sends the isolated worker the next request when it holds none. Requests that wait too
        long are put off first, to be claimed again: their tasks may be paused."""
        stale = now - STALE_SECONDS
        self._put_off([waiting.request for waiting in self._line if waiting.since < stale])
        self._line = deque(waiting for waiting in self._line if waiting.since >= stale)
        workers = [child for child in self._pool.members if child.role == "isolated"]
        if self._line or any(child.held for child in workers):
            self._idle_at = now + IDLE_FOR
        self._pool.isolated_wanted = now < self._idle_at
        free = [child for child in workers if child.ready and child.staying and not child.held]
        if self._line and free:
            request, view, _ = self._line.popleft()
            free[0].hold(request)
            self._pool.send(free[0], Run([request], {request.task: view}))

    def empty(self) -> list[GivenBack]:
        """Removes all waiting requests, and returns them."""
        left = [waiting.request.given_back() for waiting in self._line]
        self._line.clear()
        return left

    def _put_off(self, requests: list[Claimed]) -> None:
        if requests:
            self._defer([request.given_back(RECLAIM_MS) for request in requests])
