"""StallMonitor: when callbacks hold up a worker, in its event loop or in a thread that holds the
interpreter's lock, other workers take over the requests that wait behind them. The callbacks
run to completion, and their worker then ends."""

from __future__ import annotations

import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import BadRequest
from crawlframe.frontier import Claimed, GivenBack
from crawlframe.node.child_process import Child
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import KeepOnly, SlowCallback
from crawlframe.request.record import read_head

log = logging.getLogger(__name__)

STALL = 0.5  # seconds in one callback after which the other requests are moved
STALL_AGAIN = 5.0  # the same, for a callback known to be slow that still holds the event loop
SILENT_AFTER = 2.5  # seconds without a beat: a thread must be holding the interpreter's lock
CHECK_EVERY = 0.1  # seconds between two checks
MAX_STALLED = 16  # workers that may be left in such callbacks; each takes memory
KNOWN_AFTER = 2.0  # seconds after which every worker knows which callbacks are slow
MAX_CALLBACKS = 1000  # slow callbacks
AFFINITY_SLACK = 4  # requests by which a host's own worker may exceed the least loaded worker


class _Worked(NamedTuple):
    """Seconds of processor time used by a process, and by its event loop's thread."""

    all: float
    loop: float


class _Sight(NamedTuple):
    """A worker that may be held up. ``rid``: the request whose callback holds its event loop; None:
    no callback does, but it is silent. ``steps``: other requests have had a turn when it differs,
    though the same callback holds the loop again."""

    rid: bytes | None
    steps: bytes
    since: float  # time.monotonic() at which the callback or the silence began
    seen: float  # time.monotonic() at which this was first seen
    worked: _Worked  # until first seen


class _Stall(NamedTuple):
    """A worker held up by the callbacks of these requests, in its event loop or in threads."""

    child: Child
    requests: list[Claimed]
    since: float  # time.monotonic()
    computes: bool
    in_loop: bool


class StallMonitor:
    """Watches the workers of one master. ``give_back`` is called with (rid, host, 0) of requests
    that other workers may take. ``now`` is time.monotonic()."""

    def __init__(self, pool: WorkerPool, give_back: Callable[[list[GivenBack]], None]) -> None:
        self._pool = pool
        self._give_back = give_back
        self._sights: dict[int, _Sight] = {}
        self._next_check = 0.0
        self._code: object = None  # the code that _slow refers to
        # -> computes, time.monotonic()
        self._slow: BoundedDict[tuple[int, str], tuple[bool, float]] = BoundedDict(MAX_CALLBACKS)
        self._computing: set[int] = set()  # tasks

    def send_slow(self, child: Child) -> None:
        """Sends a new worker the slow callbacks; another version's are learned afresh."""
        if child.origin is not self._code:
            self._code = child.origin
            self._slow.clear()
            self._computing.clear()
            self._pool.cpu_wanted = False
        for (task, name), (computes, _) in self._slow.items():
            self._pool.send(child, SlowCallback(task, name, computes))

    def tick(self, now: float) -> None:
        """Checks the workers, and relieves stalled ones."""
        if now < self._next_check:
            return
        self._next_check = now + CHECK_EVERY
        for stall in [*self._stalls(now)]:
            if sum(child.relieved for child in self._pool) < MAX_STALLED:
                self._relieve(stall, now)

    def _relieve(self, stall: _Stall, now: float) -> None:
        seconds = now - stall.since
        names = {(one.task, name): None for one in stall.requests for name in _callbacks(one)}
        if stall.in_loop and seconds < STALL_AGAIN:
            learnt = [self._slow[name][1] for name in names if name in self._slow]
            if any(stall.since > moment + KNOWN_AFTER for moment in learnt):
                return  # it should be in a thread but cannot: it is async, or not a callback yet
        for task, name in names:
            self.mark_slow(task, name, stall.computes, now)
        rids = [one.rid for one in stall.requests]
        others = stall.child.relieve(rids)
        log.warning(
            "worker %d has been held up by callback %s for %.1f s; others take over the %d "
            "requests that wait behind it, and from now on it runs in threads",
            stall.child.pid, " or ".join(f"{name} of task {task}" for task, name in names),
            seconds, len(others),
        )  # fmt: skip
        self._give_back(others)
        self._pool.send(stall.child, KeepOnly(rids))

    def mark_slow(self, task: int, name: str, computes: bool, now: float) -> None:
        """Records that a callback is slow, because it computes or waits, and informs all
        workers."""
        _, learnt = self._slow.get((task, name), (computes, now))
        self._slow[task, name] = computes, learnt
        if computes:
            self._computing.add(task)
            self._pool.cpu_wanted = True
        for child in self._pool:
            if child.origin is self._code:
                self._pool.send(child, SlowCallback(task, name, computes))

    def dispatch(
        self, requests: list[Claimed], workers: list[Child]
    ) -> list[tuple[Child, list[Claimed]]]:
        """Assigns each request to a worker; those with computing callbacks to a worker of their
        own, as long as it has credits."""
        cpu_worker = self._pool.cpu_worker if self._computing else None
        if cpu_worker is None:
            return assign(requests, workers)
        theirs = [request for request in requests if self._computes(request)][: cpu_worker.credits]
        rids = {request.rid for request in theirs}
        others = [request for request in requests if request.rid not in rids]
        return assign(others, workers) + assign(theirs, [cpu_worker])

    def _computes(self, request: Claimed) -> bool:
        return request.task in self._computing and any(
            self._slow.get((request.task, name), (False, 0.0))[0] for name in _callbacks(request)
        )

    def _stalls(self, now: float) -> Iterator[_Stall]:
        """Workers that are held up. One with a single request need not be relieved."""
        before, self._sights = self._sights, {}
        for child in self._pool:
            if child.role not in ("worker", "cpu") or not child.staying:  # others may take over
                continue
            rid, steps = child.in_loop, child.steps
            if rid not in child.held:
                rid = None
                if now - child.last_beat < SILENT_AFTER or child.running.isdisjoint(child.held):
                    continue
            try:
                process = psutil.Process(child.pid)
                sight = before.get(child.pid)
                if sight is None or (sight.rid, sight.steps) != (rid, steps):
                    since = now if rid else child.last_beat
                    sight = _Sight(rid, steps, since, now, _worked(process))
                self._sights[child.pid] = sight
                if (stall := _judge(child, sight, process, now)) is not None:
                    yield stall
            except psutil.Error:  # it has just died
                continue


def _judge(child: Child, sight: _Sight, process: psutil.Process, now: float) -> _Stall | None:
    """Returns the stall of a worker since it was first seen; None while the cause is unclear."""
    seconds = now - sight.seen
    if seconds < STALL:
        return None
    after = _worked(process)
    worked, in_loop = after.all - sight.worked.all, after.loop - sight.worked.loop
    computes = worked > seconds / 2
    if not computes and _could_run(process, any_thread=sight.rid is None):
        if (worked if sight.rid is None else in_loop) < STALL:
            return None  # on a busy machine it may only be waiting for the processor
        computes = True
    if sight.rid is not None and not (computes and in_loop < worked / 2):
        return _Stall(child, [child.held[sight.rid]], sight.since, computes, True)
    # It is not visible which thread holds the interpreter's lock: all that run are kept.
    requests = [child.held[rid] for rid in child.running if rid in child.held]
    return _Stall(child, requests, sight.since, computes, False) if requests else None


def _could_run(process: psutil.Process, *, any_thread: bool) -> bool:
    """Whether its event loop's thread, or any thread, is runnable. Linux numbers threads as
    processes."""
    if any_thread and sys.platform == "linux":
        threads = (psutil.Process(thread.id) for thread in process.threads())
        return any(thread.status() == psutil.STATUS_RUNNING for thread in threads)
    return bool(process.status() == psutil.STATUS_RUNNING)


def _worked(process: psutil.Process) -> _Worked:
    times = process.cpu_times()
    everything = float(times.user + times.system)
    try:
        stat = Path(f"/proc/{process.pid}/task/{process.pid}/stat").read_bytes()
    except OSError:  # not Linux: all of it counts as the event loop's
        return _Worked(everything, everything)
    user, system = stat.rpartition(b")")[2].split()[11:13]
    return _Worked(everything, (int(user) + int(system)) / os.sysconf("SC_CLK_TCK"))


def _callbacks(request: Claimed) -> list[str]:
    """The names of the callbacks that may run for this request."""
    try:
        asked = read_head(request.record)
    except BadRequest:
        return []
    return [name for name in (asked.callback, asked.errback) if name]


def assign(requests: list[Claimed], workers: list[Child]) -> list[tuple[Child, list[Claimed]]]:
    """Assigns each request to a worker, preferring workers with credits, and books it there.

    A batch claimed again after a lost answer may be larger than the present credits."""
    parcels: dict[int, tuple[Child, list[Claimed]]] = {}
    for request in requests:
        child = _choose(workers, request.host)
        child.hold(request)
        child.credits -= 1
        parcels.setdefault(child.pid, (child, []))[1].append(request)
    return [*parcels.values()]


def _choose(workers: list[Child], host: str) -> Child:
    """The worker with the host's open connections, unless another clearly has less to do."""
    taking = [child for child in workers if child.credits > 0] or workers
    idlest = min(taking, key=lambda child: len(child.held))
    own = workers[zlib.crc32(host.encode()) % len(workers)]
    if own.credits > 0 and len(own.held) <= len(idlest.held) + AFFINITY_SLACK:
        return own
    return idlest
