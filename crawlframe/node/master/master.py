"""Master: the main loop of one node. It forks, claims and dispatches; it runs no user code, and no
thread while it forks: the thread that watches a ledger call ends with the call."""

from __future__ import annotations

import gc
import logging
import math
import os
import selectors
import signal
import time

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlframe.frontier import Claim, Frontier, GivenBack
from crawlframe.frontier.waits import WaitLog
from crawlframe.node import messages, supervisor_messages
from crawlframe.node.child_process import CHECKER, Child, adopt_orphans
from crawlframe.node.master.affinity import NodeAffinity
from crawlframe.node.master.claims import Claims
from crawlframe.node.master.code_reload import CodeReload
from crawlframe.node.master.deferred_calls import DeferredCalls
from crawlframe.node.master.generation import Life
from crawlframe.node.master.isolation import Isolation
from crawlframe.node.master.one_worker import OneWorker, apart_of
from crawlframe.node.master.recorded_check import PageTrials
from crawlframe.node.master.stalls import CHECK_EVERY, StallMonitor
from crawlframe.node.master.supervisor_link import SupervisorLink
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import FromChecker, FromTemplate
from crawlframe.node.services import Services
from crawlframe.node.signals import HANDED_OVER, Signals

log = logging.getLogger(__name__)

MAX_WAIT = 0.5  # seconds that one turn waits at most
ONCE_CHECK = 0.1  # seconds between two checks whether any task is left
BEGIN_AGAIN = 0.1  # seconds between two attempts to start a life
SPAWN_CHECK = 0.05  # seconds that a turn waits at most while templates or workers are missing


class Master:
    """One node, for the length of ``run``."""

    def __init__(
        self,
        settings: Settings,
        services: Services,
        *,
        once: bool = False,
        link: SupervisorLink | None = None,
    ) -> None:
        """``once``: end when no open task can make further progress. ``link``: the line to the
        supervisor, which reports changed code."""
        self._settings = settings
        self._services = services
        self._once = once
        self._link = link
        self._selector = selectors.DefaultSelector()
        self._pool = WorkerPool(settings, services, self._selector)
        self._stall_monitor = StallMonitor(self._pool, self._release)
        self._isolation = Isolation(self._pool, self._defer)
        self._code_reload = CodeReload(settings, self._pool, link)
        self._trials = PageTrials(self._pool, settings.node)
        self._stopping_since: float | None = None
        self._code = 0  # the exit code
        self._next_beat = self._next_once = 0.0
        self._unparked = self._announce_due = False
        self._deferred = DeferredCalls(self._start_over)
        self._wait_log = WaitLog(log)
        self._one_worker = OneWorker(self._pool, self._release, apart=apart_of(settings))
        self._affinity = NodeAffinity(settings.affinity)
        more = self._one_worker, self._affinity
        self._claims = Claims(self._deferred, settings.user_agent, *more)

    def run(self) -> int:
        """Works until it is asked to stop. Returns the exit code."""
        adopt_orphans()
        gc.collect()
        gc.freeze()  # imported objects stay out of garbage collection in forks
        if self._link is not None:
            self._code_reload.follow(self._link.shake_hands(self._services.code().engine_paths))
            self._selector.register(self._link.channel, selectors.EVENT_READ, self._link)
        self._frontier: Frontier = self._services.frontier()
        self._life = Life(self._settings, self._services)
        self._signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        self._selector.register(self._signals, selectors.EVENT_READ, None)
        if self._link is not None:
            self._receive_from_supervisor(self._link)  # messages that came with the handshake
        while not self._ended():
            self._tick()
        self._leave()
        return self._code

    def _begin(self) -> None:
        settled = self._life.alive or self._stopping_since is not None
        if settled or time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + BEGIN_AGAIN
        if self._life.begin(self._frontier, self._link.beside if self._link else ()):
            self._next_beat = 0.0
            self._announce_due = True
            self._claims.start_over()

    def _tick(self) -> None:
        self._take_signals()
        self._release_dead()
        self._pool.check()
        self._begin()
        self._renew_code()
        if self._life.alive:
            self._stall_monitor.tick(time.monotonic())
            self._isolation.tick(time.monotonic())
            self._renew_lease()
            self._retake()
            self._claim()
            self._announce()
        self._wait()

    # -- signals and the supervisor ---------------------------------------------------------------

    def _take_signals(self) -> None:
        for _ in (number for number in self._signals.take() if number != signal.SIGCHLD):
            if self._stopping_since is None:
                log.info("stopping: finishing what is in flight (%g s)", self._settings.grace)
                self._stop()
            else:
                log.info("stopping at once")
                self._pool.hurried = True

    def _stop(self, code: int = 0) -> None:
        self._stopping_since, self._code = time.monotonic(), code
        self._life.change(leaving=True)
        self._announce_due = True
        self._code_reload.end()
        self._pool.dismiss()
        self._release(self._isolation.empty())

    def _receive_from_supervisor(self, link: SupervisorLink) -> None:
        for message in link.receive():
            if self._stopping_since is not None:
                continue
            match message:
                case supervisor_messages.Preload(changed_at):
                    self._code_reload.preload(changed_at)
                case supervisor_messages.DropPreload():
                    self._code_reload.drop_preload()
                case supervisor_messages.Reload():
                    self._code_reload.reload(message)
                case supervisor_messages.RefuseVersion(version, problem):
                    self._code_reload.refuse(version, problem)
                case supervisor_messages.CheckoutPulled():
                    self._code_reload.reports.pulled(message)
                case supervisor_messages.SendCodeReport():
                    self._code_reload.reports.send()
                case supervisor_messages.ReplayDead():
                    self._deferred.enqueue(lambda: self._life.replay_dead(self._frontier))
                case supervisor_messages.HandOver():
                    log.info("handing over to the new master; finishing what is in flight")
                    self._stop(HANDED_OVER)
        if link.gone:
            self._selector.unregister(link.channel)
            if self._stopping_since is None:
                log.warning("the supervisor is gone; stopping")
                self._stop()

    # -- code and children ------------------------------------------------------------------------

    def _renew_code(self) -> None:
        if self._code_reload.given_up and self._stopping_since is None:
            self._stop(HANDED_OVER)  # the supervisor keeps the previous master
        if self._stopping_since is not None or not self._pool.may_spawn:
            return
        self._pool.start_services()
        working = sum(child.staying for child in self._pool.workers)
        self._code_reload.tick(working, now := time.monotonic())
        if not self._life.alive:
            return
        generation = self._life.generation
        if (live := self._code_reload.live) is not None:
            for worker in self._pool.enlist(live):
                self._on_ready(worker, worker.credits, now)
        self._pool.prepare(self._code_reload.ahead, generation)
        if live is not None:
            self._pool.staff(live, generation)

    def _on_message(self, child: Child) -> None:
        for message in self._pool.receive(child):
            now = time.monotonic()
            match message:
                case messages.WorkerReport():
                    child.report(message.credits, message.settled)
                    self._claims.take_report(child, message, now)
                case messages.WorkerReady(credits):
                    self._on_ready(child, credits, now)
                case messages.SlowCallback(task, callback, computes):
                    self._stall_monitor.mark_slow(task, callback, computes, now)
                case supervisor_messages.Migrations() if self._link is not None:
                    self._link.send(message)
                case _ if isinstance(message, FromTemplate | FromChecker):
                    self._code_reload.on_message(child, message, now)

    def _on_ready(self, worker: Child, credits: int, now: float) -> None:
        worker.credits = credits
        if worker.early:
            return
        self._claims.hurry(retake=True)
        self._stall_monitor.send_slow(worker)
        self._code_reload.worker_ready(worker, now)
        if not self._unparked:
            self._unparked = True
            # Missing modules may be there now; requests that still lack them are parked again.
            self._deferred.enqueue(self._frontier.unpark_all)

    def _release_dead(self) -> None:
        for child, code in self._pool.dead():
            self._on_message(child)  # its last messages
            self._pool.remove(child, code)
            if child.role in ("template", CHECKER):
                self._code_reload.on_exit(child, code, time.monotonic())
            if child.held:
                self._release(child.requests_to_release(self._pool.blamed(child, code)))
            child.forget()

    def _release(self, requests: list[GivenBack]) -> None:
        """Requests of a worker that died or hangs become claimable again at once."""
        generation = self._life.generation
        self._deferred.enqueue(lambda: self._frontier.release(generation, requests))

    def _defer(self, requests: list[GivenBack]) -> None:
        generation = self._life.generation
        self._deferred.enqueue(lambda: self._frontier.defer(generation, requests))

    # -- claim and dispatch -----------------------------------------------------------------------

    def _retake(self) -> None:
        """Moves requests that other nodes parked for lack of code that is live here to the head of
        their queues, and so into the next claim."""
        credits = sum(child.credits for child in self._pool.workers if child.taking)
        if credits and self._stopping_since is None:
            version, now = self._code_reload.state.version, time.monotonic()
            self._claims.retake(self._frontier, version, credits, now)

    @property
    def _claim_due(self) -> float:
        if self._stopping_since is not None or not self._life.alive:
            return math.inf
        return self._claims.due(taking=any(child.taking for child in self._pool.workers))

    def _claim(self) -> None:
        now = time.monotonic()
        if now < self._claim_due:
            return
        workers = [child for child in self._pool.workers if child.taking]
        credits = sum(child.credits for child in workers)
        if claim := self._claims.make(self._frontier, self._life.generation, credits, now):
            self._dispatch(claim, workers)

    def _dispatch(self, claim: Claim, workers: list[Child]) -> None:
        faults.at("dispatch.before")
        self._one_worker.take(claim)
        together = self._isolation.take(claim, time.monotonic())
        for child, requests in self._stall_monitor.dispatch(together, workers):
            views = {request.task: claim.tasks[request.task] for request in requests}
            self._pool.send(child, messages.Run(requests, views))
        faults.at("dispatch.after")

    # -- lease, Redis -----------------------------------------------------------------------------

    def _renew_lease(self) -> None:
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self._settings.beat
            self._trials.end_overdue(now)
            self._deferred.attempt(self._beat)

    def _beat(self) -> None:
        self._announce_due |= self._life.renew(self._frontier, self._settings.lease)
        self._affinity.tick(self._frontier, self._life.me)
        held = self._pool.held | self._isolation.held
        self._release(self._claims.strays(self._frontier, self._life.generation, held))
        self._announce_due |= self._pool.health != self._life.me.health
        self._trials.tick(self._frontier, self._code_reload.live, time.monotonic())
        self._code_reload.look(self._frontier.decisions.of, time.monotonic())
        if self._link is not None:
            self._link.forward_rollout(self._frontier, self._life.me.node)

    def _announce(self) -> None:
        self._announce_due |= self._code_reload.state is not self._life.me.code
        if self._announce_due and not self._deferred.away:
            self._announce_due = self._deferred.attempt(self._publish) is None

    def _publish(self) -> bool:
        code, loaded = self._code_reload.state, self._code_reload.accepted
        self._life.publish(self._frontier, code, loaded, self._pool.health)
        return True

    def _start_over(self) -> None:
        """This generation was declared dead and its requests belong to others: kills the workers
        and continues as a new one."""
        if not self._life.alive:
            return
        log.warning("generation %d was declared dead; starting as a new one", self._life.generation)
        self._pool.abandon()
        self._isolation.empty()
        self._deferred.clear()
        self._life.end()
        self._next_beat = 0.0

    # -- waiting and ending -----------------------------------------------------------------------

    def _wait(self) -> None:
        now = time.monotonic()
        timeout = min(MAX_WAIT, max(0.0, min(self._next_beat, self._claim_due) - now))
        if self._code_reload.live is None and self._stopping_since is None:
            timeout = min(timeout, SPAWN_CHECK)
        if self._once:
            timeout = min(timeout, ONCE_CHECK)
        if any(child.held for child in self._pool):
            timeout = min(timeout, CHECK_EVERY)
        gone = self._stopping_since is not None and not self._pool.members
        if self._signals.pending or gone:
            timeout = 0.0
        for key, events in self._selector.select(timeout):
            who = key.data
            if who is None:
                self._signals.drain()
            elif isinstance(who, SupervisorLink):
                self._receive_from_supervisor(who)
            else:
                if events & selectors.EVENT_WRITE:
                    self._pool.flush(who)
                if events & selectors.EVENT_READ:
                    self._on_message(who)

    def _ended(self) -> bool:
        if self._stopping_since is not None:
            return not self._pool.members
        if self._once and time.monotonic() >= self._next_once:
            self._next_once = time.monotonic() + ONCE_CHECK
            busy = self._pool.held or self._isolation.held
            ready = any(child.ready for child in self._pool.workers)
            if ready and not busy and self._deferred.attempt(self._nothing_left):
                log.info("no remaining task can make progress")
                self._stop()
        return False

    def _nothing_left(self) -> bool:
        stuck, waits = self._frontier.standstill()
        self._wait_log.show(waits)
        for task, c in (stuck or {}).items():
            log.warning("task %d remains: %s, %d parked of %d", task, c.state, c.parked, c.nr)
        return stuck is not None

    def _leave(self) -> None:
        self._pool.close()
        self._life.leave()
        if self._life.alive and not self._deferred.away:  # else the node's next life does it
            self._deferred.attempt(lambda: self._life.replay(self._frontier))
        log.info("node %s ended (process %d)", self._settings.node, os.getpid())
