"""PageTrials: runs the current code over kept pages that a user looks at, each in a process forked
from the live template, without effects."""

from __future__ import annotations

import contextlib
import logging

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.trials import TrialOrder
from crawlframe.node.child_process import Child
from crawlframe.node.master.offspring import kill_with_all
from crawlframe.node.master.template import Template
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import CheckRecorded

log = logging.getLogger(__name__)

LIMIT = 30.0  # seconds that one may take
AT_ONCE = 2


class PageTrials:
    """Trials of one node. ``now`` is time.monotonic()."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._running: dict[int, tuple[Child, float]] = {}  # pid -> process, when it must end

    def end_overdue(self, now: float) -> None:
        """Kills trials that take too long."""
        for pid, (child, until) in [*self._running.items()]:
            if child not in self._pool.members:
                del self._running[pid]
            elif now >= until:
                log.warning("a trial of a kept page took longer than %g s and is killed", LIMIT)
                with contextlib.suppress(ProcessLookupError):
                    kill_with_all(child)

    def tick(self, frontier: Frontier, live: Template | None, now: float) -> None:
        """Takes orders. Raises redis.RedisError."""
        room = AT_ONCE - len(self._running)
        if live is None or live.loaded is None or room <= 0:
            return
        names = {"", *(info.name for info in live.loaded.infos)}

        def fits(order: TrialOrder) -> bool:
            return order.spider in names

        for order in frontier.trials.take(fits, room):
            try:
                child = self._pool.start_checker(live)
            except OSError as error:
                log.warning("no process for a trial of a kept page: %s", error)
                return
            self._pool.send(child, CheckRecorded([], order))
            self._running[child.pid] = child, now + LIMIT
