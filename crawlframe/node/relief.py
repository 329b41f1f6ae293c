"""Relief: when a callback holds a worker's event loop, other workers take over what waits behind
it. The callback goes on to its end, and its worker with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import psutil

from crawlframe.errors import BadRequest
from crawlframe.frontier import Claimed
from crawlframe.node.child import Child
from crawlframe.node.crew import Crew
from crawlframe.node.dispatch import share_out
from crawlframe.record import read_head

log = logging.getLogger(__name__)

STALL = 0.5  # seconds in one callback, after which the others need not wait any longer
LOOK = 0.1  # seconds between two looks
MOST = 16  # workers that may be left in such callbacks; each costs memory
HEARD = 2.0  # seconds after which every worker knows which callbacks are slow
REMEMBERED = 1000  # slow callbacks


class _Sight(NamedTuple):
    """A request in whose callback a worker was seen."""

    rid: bytes
    since: float  # time.monotonic()
    worked: float  # seconds of processor time that the worker had used


class Relief:
    """Of one master. ``give_back`` is told (rid, host, 0) of requests that others may have."""

    def __init__(
        self, crew: Crew, give_back: Callable[[list[tuple[bytes, str, int]]], None]
    ) -> None:
        self._crew = crew
        self._give_back = give_back
        self._sights: dict[int, _Sight] = {}
        self._next_look = 0.0
        self._code: object = None  # what _slow is about
        self._slow: dict[tuple[int, str], tuple[bool, float]] = {}  # -> computes, time.monotonic()
        self._computing: set[int] = set()  # tasks

    def brief(self, child: Child) -> None:
        """Tells a new worker which callbacks are slow. Another version's are judged anew."""
        if child.origin is not self._code:
            self._code = child.origin
            self._slow.clear()
            self._computing.clear()
            self._crew.aside_wanted = False
        for (task, name), (computes, _) in self._slow.items():
            self._crew.say(child, "slow", task, name, computes)

    def turn(self) -> None:
        """Looks at the workers, and relieves those that stand still."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK
        for child, request, since, computes in [*self._stalls(now)]:
            names = _callbacks(request)
            known = [
                self._slow[request.task, name]
                for name in names
                if (request.task, name) in self._slow
            ]
            if any(since > learnt + HEARD for _, learnt in known):
                continue  # it should be in a thread, and cannot: it is async, or no callback yet
            if sum(member.relieved for member in self._crew) >= MOST:
                continue
            for name in names:
                self.learn(request.task, name, computes)
            others = child.relieve(request.rid)
            log.warning(
                "worker %d has been in callback %s of task %d for %.1f s; others take over the %d "
                "requests that wait behind it, and from now on it runs in threads",
                child.pid, " or ".join(names), request.task, now - since, len(others),
            )  # fmt: skip
            self._give_back(others)
            self._crew.say(child, "relieve", request.rid)

    def learn(self, task: int, name: str, computes: bool) -> None:
        """A callback is slow, because it computes or because it waits. All workers are told."""
        if len(self._slow) >= REMEMBERED:
            del self._slow[next(iter(self._slow))]
        _, learnt = self._slow.get((task, name), (computes, time.monotonic()))
        self._slow[task, name] = computes, learnt
        if computes:
            self._computing.add(task)
            self._crew.aside_wanted = True
        for member in self._crew:
            if member.origin is self._code:
                self._crew.say(member, "slow", task, name, computes)

    def share_out(
        self, requests: list[Claimed], workers: list[Child]
    ) -> list[tuple[Child, list[Claimed]]]:
        """Gives each request to a worker; those whose callbacks compute to one of their own, as far
        as it has credits."""
        aside = self._crew.aside if self._computing else None
        if aside is None:
            return share_out(requests, workers)
        theirs = [request for request in requests if self._computes(request)][: aside.credits]
        rids = {request.rid for request in theirs}
        others = [request for request in requests if request.rid not in rids]
        return share_out(others, workers) + share_out(theirs, [aside])

    def _computes(self, request: Claimed) -> bool:
        return request.task in self._computing and any(
            self._slow.get((request.task, name), (False, 0.0))[0] for name in _callbacks(request)
        )

    def _stalls(self, now: float) -> Iterator[tuple[Child, Claimed, float, bool]]:
        """Workers that stand still, in which request, since when, and whether they compute."""
        before, self._sights = self._sights, {}
        for child in self._crew.workers:
            rid = child.in_loop
            if rid is None or rid not in child.held or not child.staying:
                continue
            try:
                process = psutil.Process(child.pid)
                sight = before.get(child.pid)
                if sight is None or sight.rid != rid:
                    sight = _Sight(rid, now, _processor_time(process))
                self._sights[child.pid] = sight
                seconds = now - sight.since
                if seconds < STALL:
                    continue
                computes = _processor_time(process) - sight.worked > seconds / 2
                # On a busy machine it may only be waiting for its turn.
                if computes or process.status() != psutil.STATUS_RUNNING:
                    yield child, child.held[rid], sight.since, computes
            except psutil.Error:  # it has just died
                continue


def _processor_time(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _callbacks(request: Claimed) -> list[str]:
    """The names of what may run for this request."""
    try:
        asked = read_head(request.record)
    except BadRequest:
        return []
    return [name for name in (asked.callback, asked.errback) if name]
