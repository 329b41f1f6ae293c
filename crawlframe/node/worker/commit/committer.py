"""Committer: the only thread of a worker that writes. It takes outcomes, and writes them in batches
as ledger rows and items (database), then as completions, retries and parkings (frontier)."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable

from redis import RedisError

from crawlframe.conf import Settings
from crawlframe.errors import Fenced, FrontierError
from crawlframe.frontier import Completion, Frontier
from crawlframe.frontier.client.records import REFUSED, GivenBack, Signal
from crawlframe.frontier.frontier import REFUSAL
from crawlframe.node.task_finisher import TaskFinisher
from crawlframe.node.worker.commit.host_counters import HostCounters
from crawlframe.node.worker.verdict.backoff import FILE_GONE, REFETCH
from crawlframe.request.request import Admission
from crawlframe.run.ledger import (
    FilesGone,
    Ledger,
    LedgerAway,
    LedgerRefused,
    Recorded,
    TablesChanged,
)
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participants
from crawlframe.run.reasons import CHALLENGED

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.005  # seconds after the first outcome of a batch for others to join it
GATHER_ROUNDS = 4  # times that is repeated while more are worth waiting for
RETRY_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds, while the database or Redis is unavailable


class Committer(threading.Thread):
    """Takes outcomes with ``put``; calls ``settled`` (in this thread) with the rids that are done.

    Outcomes that cannot be written now are held and tried again as long as it takes: none is
    dropped. ``on_fenced`` is called when this generation turns out to be dead;
    ``worth_waiting_for`` returns how many more outcomes a batch should have; ``place`` gives
    follow-ups the hosts at which they wait, if these are not their own."""

    def __init__(
        self,
        settings: Settings,
        generation: int,
        frontier: Frontier,
        ledger: Ledger,
        sieve: Sieve,
        participants: Participants,
        settled: Callable[[list[bytes]], None],
        on_fenced: Callable[[], None],
        worth_waiting_for: Callable[[], int] = lambda: 0,
        place: Callable[[list[Admission]], list[Admission]] | None = None,
    ) -> None:
        super().__init__(name="commit", daemon=True)
        self._batch_size = settings.commit_batch
        self._generation = generation
        self._frontier = frontier
        self._ledger = ledger
        self._sieve = sieve
        self._participants = participants
        self._settled = settled
        self._on_fenced = on_fenced
        self._worth_waiting_for = worth_waiting_for
        self._place = place
        self._inbox: queue.SimpleQueue[Outcome | Callable[[], None] | None] = queue.SimpleQueue()
        self._put = self._done = 0  # outcomes; each is counted by one thread only
        self._confirming = False
        self._task_finisher = TaskFinisher(frontier, ledger)
        self._host_counters = HostCounters()
        self._waits = ""  # the reason why the last attempt failed

    @property
    def waits(self) -> str:
        """Why the held outcomes wait; "" when they do not wait."""
        return self._waits or self._ledger.waits

    @property
    def held(self) -> int:
        """Outcomes put and not settled yet; the loop reads it for back-pressure."""
        return self._put - self._done

    def put(self, outcome: Outcome) -> None:
        """Hands over an outcome; always called by the same thread."""
        self._put += 1
        self._inbox.put(outcome)

    def call(self, job: Callable[[], None]) -> None:
        """Runs ``job`` in this thread, which owns the connections. It must not raise."""
        self._inbox.put(job)

    def leave(self) -> None:
        """This generation is dead: its requests belong to others."""
        self._on_fenced()

    def confirm(self) -> None:
        """Checks that Redis still has all calls that it answered, unless a check is already
        queued."""
        if not self._confirming:
            self._confirming = True
            self.call(self._confirm)

    def close(self) -> None:
        """Writes the held outcomes, then ends; call join() afterwards."""
        self._inbox.put(None)

    def run(self) -> None:
        try:
            self._work()
        except BaseException:  # without this thread the worker would hold requests for ever
            log.exception("the commit thread failed; the worker ends")
            os._exit(1)

    def _work(self) -> None:
        open_ = True
        while open_:
            batch: list[Outcome] = []
            try:
                entry = self._inbox.get(timeout=self._left())
            except queue.Empty:
                self._do_due()
                continue
            if isinstance(entry, Outcome):
                self._gather()
            while True:
                if entry is None:
                    open_ = False
                elif isinstance(entry, Outcome):
                    batch.append(entry)
                else:
                    entry()
                if len(batch) >= self._batch_size or self._inbox.empty():
                    break
                entry = self._inbox.get()
            if batch:
                self._write(batch)
                self._done += len(batch)
                self._settled([outcome.rid for outcome in batch])
                self._host_counters.add(batch, time.monotonic())
            self._do_due()
        self._end_tasks()
        self._add_host_stats()
        self._ledger.close()

    def _left(self) -> float | None:
        """Seconds until something is due besides outcomes; None: nothing is."""
        now = time.monotonic()
        dues = self._task_finisher.left(now), self._host_counters.left(now), self._ledger.left()
        return min((left for left in dues if left is not None), default=None)

    def _do_due(self) -> None:
        now = time.monotonic()
        if self._task_finisher.left(now) == 0:
            self._end_tasks()
        if self._host_counters.left(now) == 0:
            self._add_host_stats()
        if self._ledger.left() == 0:
            self._ledger.tick()

    def _add_host_stats(self) -> None:
        """Adds the statistics at most once: a failure costs some, and holds up nothing."""
        if hosts := self._host_counters.take():
            try:
                self._ledger.activity.add_host_stats(hosts)
            except (LedgerAway, LedgerRefused) as error:
                log.warning("statistics of %d hosts are dropped: %s", len(hosts), error)

    def _end_tasks(self) -> None:
        try:
            self._task_finisher.end(time.monotonic())
        except Fenced:
            self._on_fenced()
        except Exception as error:  # also one that is of a single task: a steward ends the others
            log.warning("a steward ends tasks that could not be ended here: %s", error)

    def _confirm(self) -> None:
        self._confirming = False
        try:
            self._frontier.eras.confirm()
        except Fenced:
            self._on_fenced()
        except (RedisError, OSError):
            pass  # it is unavailable; a later check will show it

    def _gather(self) -> None:
        for _ in range(GATHER_ROUNDS):
            time.sleep(GATHER_SECONDS)
            if self._inbox.qsize() >= min(self._batch_size, self._worth_waiting_for()):
                return

    def _write(self, batch: list[Outcome]) -> None:
        tries = 0
        while True:
            try:
                self._settle(batch)
                self._waits = ""
                return
            except Fenced:
                self._on_fenced()
                return
            except (LedgerAway, FrontierError, RedisError, OSError) as error:
                if tries == 0:
                    log.warning("%d results wait: %s", len(batch), error)
                self._waits = " ".join(str(error).split())
                time.sleep(RETRY_PAUSES[min(tries, len(RETRY_PAUSES) - 1)])
                tries += 1

    def _settle(self, batch: list[Outcome]) -> None:
        self._prepare(batch)
        ended = [outcome for outcome in batch if outcome.verdict.final]
        if len(ended) < len(batch):
            self._participants.after([o for o in batch if not o.verdict.final], {})
        while ended:
            recorded = self._commit(ended)
            others = self._participants.after(ended, recorded)
            self._complete([o for o in ended if o.rid in recorded], recorded)
            ended = others
        if held := [outcome for outcome in batch if not outcome.verdict.final]:
            self._give_back(held)

    def _prepare(self, outcomes: list[Outcome]) -> None:
        try:
            self._participants.prepare(outcomes)
        except LedgerRefused as error:
            if len(outcomes) > 1:
                for outcome in outcomes:
                    self._prepare([outcome])
            else:
                self._refuse(outcomes[0], error)

    def _give_back(self, held: list[Outcome]) -> None:
        """Returns requests that have not ended."""
        for verdict, give in (
            (Verdict.RETRY, self._frontier.retry),
            (Verdict.DEFER, self._frontier.defer),
            (Verdict.RELEASE, self._frontier.release),
        ):
            if some := [_given_back(o, _value(o)) for o in held if o.verdict is verdict]:
                give(self._generation, some)
        moved = [o for o in held if o.verdict is Verdict.REDIRECT]
        if moves := [_given_back(o, (o.target, o.record)) for o in moved]:
            self._frontier.redirect(self._generation, moves)
        parked = [o for o in held if o.verdict is Verdict.PARK]
        for version in {o.version for o in parked}:
            reasons = [
                GivenBack(o.rid, o.host, o.claim, o.reason) for o in parked if o.version == version
            ]
            self._frontier.park(self._generation, reasons, version)
        if parked:
            self._frontier.pins.leave({o.task for o in parked}, self._generation)

    def _commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        try:
            return self._ledger.commit(outcomes)
        except (LedgerRefused, TablesChanged, FilesGone) as error:
            if len(outcomes) > 1:
                recorded: dict[bytes, Recorded] = {}
                for outcome in outcomes:
                    recorded.update(self._commit([outcome]))
                return recorded
            if isinstance(error, FilesGone):
                outcomes[0].end(Verdict.DEFER, FILE_GONE, str(error), delay=REFETCH)
                return {}
            if isinstance(error, TablesChanged):
                outcomes[0].end(Verdict.PARK, str(error)[:500])
                return {}
            self._refuse(outcomes[0], error)
        try:
            return self._ledger.commit(outcomes)
        except LedgerRefused as error:  # for example, its task was deleted from the database
            log.error("the database refuses any row of %s: %s", outcomes[0].url, error)
            outcomes[0].end(Verdict.PARK, f"the database refuses its row: {error}"[:500])
            outcomes[0].version = ""  # no other code would help
            return {}

    def _refuse(self, outcome: Outcome, error: Exception) -> None:
        defect = error.__cause__  # of a participant
        log.error("the database refuses the result of %s: %s", outcome.url, error, exc_info=defect)
        outcome.end(Verdict.ERROR, "refused", str(error))

    def _complete(self, outcomes: list[Outcome], recorded: dict[bytes, Recorded]) -> None:
        completions = []
        for outcome in outcomes:
            row = recorded[outcome.rid]
            follow_ups = row.follow_ups
            if self._place is not None:
                follow_ups = self._place(follow_ups)
            completions.append(
                Completion(
                    outcome.rid,
                    outcome.task,
                    outcome.host,
                    row.failed,
                    follow_ups,
                    outcome.results.duplicates,
                    row.items,
                    row.cancelled,
                    row.excluded,
                    Signal(*outcome.fetch.signal),
                )
            )
        ended = self._frontier.complete(completions)
        for outcome in outcomes:
            # Only this run's recorded fingerprints are marked; another run that won may differ.
            if recorded[outcome.rid].follow_ups is outcome.results.follow_ups:
                self._sieve.add(outcome.task, outcome.results.fingerprints)
        self._task_finisher.add(ended)


def _given_back(outcome: Outcome, value: object) -> GivenBack:
    signal = Signal(*outcome.fetch.signal)
    return GivenBack(outcome.rid, outcome.host, outcome.claim, value, signal)


def _value(outcome: Outcome) -> int:
    """The number for a request that is returned: milliseconds, or a penalty."""
    if outcome.verdict is Verdict.RELEASE:
        refused = outcome.fetch.signal[0] == REFUSED or outcome.reason == CHALLENGED
        return REFUSAL if refused or outcome.fetch.retry_proxy else 0
    return outcome.delay
