"""TaskFinisher: marks tasks that have nothing left as ended in the ledger, and removes them from
the frontier."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from crawlframe.frontier import Counts, Frontier
from crawlframe.run.ledger import Ledger

log = logging.getLogger(__name__)

ROUND_SECONDS = 0.25  # seconds between two rounds: many small tasks end together
LARGE_TASK = 100_000  # requests of a task above which a worker does not wait for them to be counted


def end_tasks(ledger: Ledger, frontier: Frontier, tasks: Mapping[int, Counts]) -> set[int]:
    """Ends the tasks whose rows are all in the ledger; returns which these are."""
    if not tasks:
        return set()
    ended = ledger.tasks.finish(tasks)
    frontier.close_tasks(ended)
    for task in sorted(ended):
        counts = tasks[task]
        log.info(
            "task %d ended: %d pages, %d errors, %d cancelled, %d excluded",
            task,
            counts.nf,
            counts.errors,
            counts.cancelled,
            counts.excluded,
        )
    return ended


class TaskFinisher:
    """Ends tasks that a worker brought to NR = 0. The remaining ones are ended by a steward.
    ``now`` is time.monotonic()."""

    def __init__(self, frontier: Frontier, ledger: Ledger) -> None:
        self._frontier = frontier
        self._ledger = ledger
        self._tasks: set[int] = set()
        self._not_before = 0.0

    def add(self, tasks: Iterable[int]) -> None:
        """Tasks that have come to NR = 0, or to their last request. With several partitions they
        are left to stewards, which read the others too."""
        if self._frontier.store.partitions == 1:
            self._tasks.update(tasks)

    def left(self, now: float) -> float | None:
        """Seconds until ``end`` is due; None when nothing waits for it."""
        return max(0.0, self._not_before - now) if self._tasks else None

    def end(self, now: float) -> None:
        """Ends the tasks, or releases their last requests. Raises errors of the ledger and the
        frontier; the steward ends the tasks then."""
        tasks, self._tasks = self._tasks, set()
        self._not_before = now + ROUND_SECONDS
        found = self._frontier.counts_of(tasks)
        for task in [t for t, c in found.items() if c and c.may_be_last]:
            self._frontier.begin_last(task)
        ready = {t: c for t, c in found.items() if c and c.nr == 0 and c.na <= LARGE_TASK}
        end_tasks(self._ledger, self._frontier, ready)
