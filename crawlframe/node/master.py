"""Master: the loop of verbs of one node. It forks, claims and hands out; it runs no user code and
has no threads, so that its forks are clean."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Any

import msgspec
from redis import RedisError

from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Frontier
from crawlframe.ledger import LedgerAway
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.child import Child, describe_exit
from crawlframe.node.dispatch import share_out
from crawlframe.node.errands import Errands
from crawlframe.node.generation import begin
from crawlframe.node.services import Services
from crawlframe.node.signals import Signals
from crawlframe.node.worker import run_worker
from crawlframe.spider import SpiderInfo

log = logging.getLogger(__name__)

IDLE_CLAIM = 0.1  # seconds between claims while nothing is due
WRITING = 5.0  # seconds beyond the grace time in which a worker may write what it has finished
FULL_TURN = 0.5  # seconds a turn waits at most
ONCE_CHECK = 0.3  # seconds between two looks whether any task is left
BOOT_PAUSE = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds before a role is spawned again after failed boots


class Master:
    """One node, for the length of ``run``."""

    def __init__(self, settings: Settings, services: Services, *, once: bool = False) -> None:
        """``once``: end when no open task has anything left that can run."""
        self._settings = settings
        self._services = services
        self._once = once
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._stopping_since: float | None = None
        self._stop_now = False
        self._sequence = 0
        self._next_claim = self._next_beat = self._next_once = 0.0
        self._failed_boots = 0
        self._next_spawn = 0.0
        self._unparked = False
        self._spiders: list[SpiderInfo] = []
        self._errands = Errands(self._start_over)

    def run(self) -> int:
        """Works until told to stop. Answers the exit code."""
        self._frontier: Frontier = self._services.frontier()
        self._begin()
        self._signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        self._selector.register(self._signals, selectors.EVENT_READ, None)
        workers = f"{self._settings.workers} workers of {self._settings.concurrency} requests"
        log.info("node %s, generation %d: %s", self._settings.node, self._generation, workers)
        while not self._ended():
            self._turn()
        self._leave()
        return 0

    def _begin(self) -> None:
        self._me = begin(self._settings, self._services, self._frontier)
        self._generation = self._me.generation
        self._sequence = 0

    def _turn(self) -> None:
        self._take_signals()
        self._reap()
        self._retire()
        self._renew()
        self._claim()
        self._spawn()
        self._wait()

    # -- signals ----------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        for number in self._signals.take():
            if number == signal.SIGCHLD:
                continue
            if self._stopping_since is None:
                log.info("stopping: finishing what is in flight (%g s)", self._settings.grace)
                self._stop()
            else:
                log.info("stopping at once")
                self._stop_now = True

    def _stop(self) -> None:
        self._stopping_since = time.monotonic()
        for child in self._children:
            if child.ready:
                self._tell_to_retire(child)
            else:  # it holds nothing, and an import may take for ever
                child.retiring_since = self._stopping_since
                child.signal(signal.SIGKILL)

    # -- children ---------------------------------------------------------------------------------

    def _reap(self) -> None:
        for child in [*self._children]:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._hear(child)  # what it said before it died
                self._bury(child, os.waitstatus_to_exitcode(status))

    def _bury(self, child: Child, code: int) -> None:
        self._children.remove(child)
        self._selector.unregister(child.channel)
        stopping = self._stopping_since is not None
        if code != 0 and not self._stop_now and (child.ready or not stopping):
            log.warning("%s %d died (%s)", child.role, child.pid, describe_exit(code))
        if not child.ready and time.monotonic() >= self._next_spawn:  # once for all of one round
            self._failed_boots += 1
            pause = BOOT_PAUSE[min(self._failed_boots, len(BOOT_PAUSE) - 1)]
            self._next_spawn = time.monotonic() + pause
        if child.held:
            self._give_back(child, killed=code != 0 and not self._stop_now)
        child.forget()

    def _give_back(self, child: Child, *, killed: bool) -> None:
        """The requests of a dead worker are claimable again at once. The one whose callback was
        running is blamed for the death; if none was, all of them are, unless the worker was leaving
        and we lost patience with it."""
        culprit = child.culprit()
        if culprit is None and child.retiring_since is not None:
            killed = False
        requests = [
            (rid, claimed.host, int(killed and culprit in (None, rid)))
            for rid, claimed in child.held.items()
        ]
        generation = self._generation
        self._errands.owe(lambda: self._frontier.release(generation, requests))

    def _retire(self) -> None:
        """Replaces workers that hang or grew, and kills those whose time to leave is over."""
        now = time.monotonic()
        limit = self._settings.max_memory << 20
        for child in self._children:
            if child.retiring_since is not None:
                if self._stop_now or now - child.retiring_since > self._settings.grace + WRITING:
                    child.signal(signal.SIGKILL)
            elif now - child.last_beat > self._settings.deadline:
                log.warning("%s %d stands still and is killed", child.role, child.pid)
                child.signal(signal.SIGKILL)
                child.last_beat = now
            elif child.role == "worker" and (
                child.rss > limit or now - child.born > self._settings.max_age
            ):
                rss, age = child.rss >> 20, now - child.born
                log.info("worker %d, %d MiB, %.0f s old, is replaced", child.pid, rss, age)
                self._tell_to_retire(child)

    def _tell_to_retire(self, child: Child) -> None:
        if child.retiring_since is None:
            child.retiring_since = time.monotonic()
            self._say(child, "retire")

    def _spawn(self) -> None:
        if self._stopping_since is not None or time.monotonic() < self._next_spawn:
            return
        staying = [child.role for child in self._children if child.retiring_since is None]
        settings, services, generation = self._settings, self._services, self._generation
        if "steward" not in staying:
            self._fork("steward", lambda channel, mark: services.run_steward(channel))
        for _ in range(self._settings.workers - staying.count("worker")):
            self._fork(
                "worker",
                lambda channel, mark: run_worker(settings, services, generation, channel, mark),
            )

    def _fork(self, role: str, main: Callable[..., None]) -> None:
        child = Child.spawn(role, main)
        self._children.append(child)
        self._selector.register(child.channel, selectors.EVENT_READ, child)

    # -- what children say ------------------------------------------------------------------------

    def _hear(self, child: Child) -> None:
        try:
            messages = child.channel.receive()
        except ChannelClosed:
            return  # it is dead or dying; reap sees to it
        for kind, *rest in messages:
            child.last_beat = time.monotonic()
            if kind == "report":
                credits, settled = rest
                child.credits += credits
                for rid in settled:
                    child.settle(rid)
                self._next_claim = 0.0
            elif kind == "beat":
                child.rss = rest[0]
            elif kind == "ready":
                self._on_ready(child, *rest)

    def _on_ready(
        self, child: Child, credits: int = 0, infos: list[Any] | None = None, broken: Any = None
    ) -> None:
        child.ready, child.credits = True, credits
        self._failed_boots = 0
        self._next_claim = 0.0
        if infos is None:
            return
        for module, problem in broken.items():
            log.error("spider module %s is not loaded: %s", module, problem)
        self._spiders = [msgspec.convert(info, SpiderInfo, strict=False) for info in infos]
        self._errands.owe(self._publish)
        if not self._unparked:
            self._unparked = True
            # What was missing may be there now; what still lacks it is parked again.
            self._errands.owe(self._frontier.unpark_all)

    def _publish(self) -> None:
        self._me = self._me._replace(spiders=tuple(spider.name for spider in self._spiders))
        self._frontier.leases.announce(self._me)
        self._frontier.publish_spiders(self._spiders)

    def _say(self, child: Child, *message: Any) -> None:
        try:
            child.channel.send(*message)
        except ChannelClosed:
            return  # it died; reap gives back what it held
        if child.channel.pending:
            self._selector.modify(
                child.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, child
            )

    # -- claim and dispatch -----------------------------------------------------------------------

    def _claim(self) -> None:
        now = time.monotonic()
        workers = [child for child in self._children if child.taking]
        if self._stopping_since is not None or now < self._next_claim or not workers:
            return
        claim = self._errands.attempt(
            lambda: self._frontier.claim(
                self._generation, self._sequence, sum(child.credits for child in workers)
            )
        )
        if claim is None:
            self._next_claim = now + FULL_TURN
            return
        self._sequence += 1
        self._dispatch(claim, workers)
        if not claim.requests or claim.wait != 0:
            pause = IDLE_CLAIM if claim.wait < 0 else min(IDLE_CLAIM, claim.wait / 1000)
            self._next_claim = now + max(0.001, pause)

    def _dispatch(self, claim: Claim, workers: list[Child]) -> None:
        for child, requests in share_out(claim.requests, workers):
            views = {request.task: claim.tasks[request.task] for request in requests}
            self._say(child, "run", requests, views)

    # -- lease, Redis -----------------------------------------------------------------------------

    def _renew(self) -> None:
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self._settings.beat
            self._errands.attempt(self._renew_lease)
            if not self._errands.away:
                self._errands.pay()

    def _renew_lease(self) -> None:
        leases = self._frontier.leases
        forgotten = self._generation not in leases.left()
        leases.renew(self._generation, self._settings.lease)
        if forgotten:  # Redis was emptied, or is older than we are
            self._publish()

    def _start_over(self) -> None:
        """This generation was declared dead, its requests belong to others: kill the workers and go
        on as a new one."""
        log.warning("generation %d was declared dead", self._generation)
        for child in self._children:
            child.held.clear()  # they belong to whoever replayed us
            child.signal(signal.SIGKILL)
            child.retiring_since = time.monotonic()
        self._errands.forget()
        while self._stopping_since is None:
            try:
                self._begin()
                log.info("starting as a new one: generation %d", self._generation)
                return
            except (RedisError, LedgerAway, OSError) as error:
                log.warning("a new generation cannot begin yet: %s", error)
                time.sleep(0.5)
            self._take_signals()

    # -- waiting and ending -----------------------------------------------------------------------

    def _wait(self) -> None:
        now = time.monotonic()
        timeout = min(FULL_TURN, max(0.0, self._next_beat - now))
        if self._stopping_since is None and any(child.taking for child in self._children):
            timeout = min(timeout, max(0.0, self._next_claim - now))
        if self._signals.pending:
            timeout = 0.0
        for key, events in self._selector.select(timeout):
            child = key.data
            if child is None:
                self._signals.drain()
                continue
            if events & selectors.EVENT_WRITE:
                self._flush(child)
            if events & selectors.EVENT_READ:
                self._hear(child)

    def _flush(self, child: Child) -> None:
        try:
            child.channel.flush()
        except ChannelClosed:
            return
        if not child.channel.pending:
            self._selector.modify(child.channel, selectors.EVENT_READ, child)

    def _ended(self) -> bool:
        if self._stopping_since is not None:
            return not self._children
        if self._once and time.monotonic() >= self._next_once:
            self._next_once = time.monotonic() + ONCE_CHECK
            busy = any(child.held for child in self._children)
            ready = any(child.ready and child.role == "worker" for child in self._children)
            if ready and not busy and self._errands.attempt(self._nothing_left):
                log.info("no task is left that could go on")
                self._stop()
        return False

    def _nothing_left(self) -> bool:
        stuck = self._frontier.stuck()
        for task, c in (stuck or {}).items():
            log.warning("task %d is left: %s, %d parked of %d", task, c.state, c.parked, c.nr)
        return stuck is not None

    def _leave(self) -> None:
        replay = self._frontier.leases.replay
        if not self._errands.away:  # else the next life of this node does it
            self._errands.attempt(lambda: replay(self._generation))
        log.info("node %s ended", self._settings.node)
