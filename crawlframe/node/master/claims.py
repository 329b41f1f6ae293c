"""Claims: when a master claims requests from the frontier, and which finished fetches it reports
with the claim, so that host slots are free before the results are written."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable
from itertools import islice

from crawlframe.frontier import Claim, FreedSlot, Frontier, GivenBack
from crawlframe.frontier.client.batches import MAX_ENTRIES
from crawlframe.frontier.client.records import NEVER_SENT, SENT, Signal
from crawlframe.identity.identity import Introduction
from crawlframe.node.child_process import Child
from crawlframe.node.master.affinity import NodeAffinity
from crawlframe.node.master.deferred_calls import DeferredCalls
from crawlframe.node.master.one_worker import OneWorker
from crawlframe.node.messages import WorkerReport
from crawlframe.proxies.place import host_in

log = logging.getLogger(__name__)

IDLE_PAUSE = 0.1  # seconds between claims while nothing is due
RETAKE_EVERY = 1.0  # seconds between two searches for parked requests that this code has not tried
AWAY_PAUSE = 0.5  # seconds after a claim that failed
REPORT_DELAY = 0.01  # seconds that ended fetches wait to be reported if no worker has a slot


class Claims:
    """The claims of one master. ``now`` is time.monotonic(). ``user_agent`` is the node's; a
    warning follows the first claim of a public host if it has no contact. ``one_worker``: limits
    the requests of the tasks in it. ``affinity``: counts the claims."""

    def __init__(
        self,
        deferred_calls: DeferredCalls,
        user_agent: str = "",
        one_worker: OneWorker | None = None,
        affinity: NodeAffinity | None = None,
    ) -> None:
        self._deferred = deferred_calls
        self._one_worker = one_worker
        self._affinity = affinity or NodeAffinity()
        self._introduction = Introduction(user_agent)
        self._over: dict[FreedSlot, None] = {}
        # time.monotonic() when it was sent; inf: not to be sent
        self._sent: dict[FreedSlot, float] = {}
        self._next_retake = 0.0
        self.start_over()

    def start_over(self) -> None:
        """Starts a generation, which holds nothing."""
        self._sequence = 0
        self._over.clear()
        self._sent.clear()
        self._answered = True
        self._next = self._next_report = 0.0
        self._astray: list[GivenBack] = []
        if self._one_worker is not None:
            self._one_worker.clear()
        self._affinity.start_over()

    def retake(self, frontier: Frontier, version: str, n: int, now: float) -> None:
        """Lets the next claim find up to n parked requests that this version has not tried, once
        per RETAKE_EVERY."""
        if self._deferred.away or now < self._next_retake:  # claims find out when it is back
            return
        self._next_retake = now + RETAKE_EVERY
        if self._deferred.attempt(lambda: frontier.retake(version, n)):
            self.hurry(retake=True)

    def hurry(self, *, retake: bool = False) -> None:
        """Makes the next claim due at once, and with ``retake`` the search for parked requests
        too."""
        self._next = 0.0
        if retake:
            self._next_retake = 0.0

    def take_report(self, child: Child, report: WorkerReport, now: float) -> None:
        """Takes a worker's report. The next claim is due at once."""
        self.note_sent(child, report.sent, now)
        self.end_fetches(child, report.fetched, now)
        self.hurry()

    def note_sent(self, child: Child, sent: Iterable[tuple[bytes, int, float]], now: float) -> None:
        """Takes a worker's report: (rid, number of the claim, time) of requests that were sent."""
        for rid, claim, then in sent:
            held = child.held.get(rid)
            if held is not None and held.claim == claim:
                self._report_by(now)
                self._sent[FreedSlot(rid, held.host, claim)] = then

    def end_fetches(
        self, child: Child, over: Iterable[tuple[bytes, int, Signal]], now: float
    ) -> None:
        """Takes a worker's report: (rid, number of the claim, signal) of fetches that are over."""
        for rid, claim, signal in over:
            held = child.held.get(rid)
            if held is not None and held.claim == claim:
                self._report_by(now)
                self._over[FreedSlot(rid, held.host, claim, signal)] = None

    def due(self, *, taking: bool) -> float:
        """When the next claim is due. ``taking``: whether any worker has a free slot."""
        # A batch whose answer was lost is returned again, and a worker must be there to take it.
        reports = self._over or self._sent
        reporting = self._next_report if reports and self._answered else math.inf
        return min(reporting, self._next) if taking else reporting

    def make(self, frontier: Frontier, generation: int, n: int, now: float) -> Claim | None:
        """Claims up to n requests; None when Redis is away or the generation dead."""
        sequence = self._sequence
        begun = [*islice(self._sent, MAX_ENTRIES)]
        over = [*islice(self._over, MAX_ENTRIES - len(begun))]
        fetched = [one._replace(signal=self._age(one, now)) for one in begun] + over
        rooms = self._one_worker.rooms() if self._one_worker is not None else {}
        prefers = self._affinity.on
        claim = self._deferred.attempt(
            lambda: frontier.claim(generation, sequence, n, fetched, rooms, prefers)
        )
        self._answered = claim is not None
        if claim is None:
            self._next = now + AWAY_PAUSE
            return None
        self._sequence += 1
        for one in begun:
            del self._sent[one]
        for one in over:
            del self._over[one]
        self._next_report = now
        self._affinity.note(claim.requests)
        if self._one_worker is not None:
            # Of tasks that run in one worker, the next claim brings the due requests.
            for task in self._one_worker.servable(claim.unserved):
                if self._deferred.attempt(lambda task=task: frontier.pins.take(task, generation)):  # type: ignore[misc]
                    self._one_worker.serve(task)
            self._one_worker.prune(now, lambda: self._deferred.attempt(frontier.open_tasks))
        if missing := self._introduction.missing_for(host_in(one.host) for one in claim.requests):
            log.warning("%s", missing)
        if not claim.requests or claim.wait != 0:
            pause = IDLE_PAUSE if claim.wait < 0 else min(IDLE_PAUSE, claim.wait / 1000)
            self._next = now + max(0.001, pause)
        return claim

    def _report_by(self, now: float) -> None:
        if not self._over and not self._sent:
            self._next_report = now + REPORT_DELAY

    def _age(self, sent: FreedSlot, now: float) -> Signal:
        then = self._sent[sent]
        return Signal(SENT, NEVER_SENT if then == math.inf else max(0.0, 1000 * (now - then)))

    def strays(
        self, frontier: Frontier, generation: int, held: Collection[bytes]
    ) -> list[GivenBack]:
        """Requests that this generation holds in Redis but that no worker has, now and at the last
        check: Redis has lost the end of a request, and all that knew of it are gone; or a claim
        that was abandoned reached it after all."""
        if not self._answered or self._deferred.pending:
            return []  # some of them are on their way
        before, self._astray = self._astray, frontier.leases.strays(generation, held)
        strays = [one for one in self._astray if one in before]
        if strays:
            log.warning("%d requests that no worker has are given back", len(strays))
        return strays
