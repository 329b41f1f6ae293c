"""Quiet: the promises of a cluster that nothing disturbs any more - a task ends soon after its last
request, and no request waits without a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crawlframe.frontier import Counts, Frontier
from tests.simulation.site import Web

END_WITHIN = 2.0  # seconds from the last request of a task to its end
GO_ON_WITHIN = 10.0  # seconds in which a request of a waiting task ends, or its wait has a reason


class Quiet:
    """The active tasks, looked at once a second. ``longest``: seconds from the last request of a
    task to its end."""

    def __init__(self, frontier: Frontier, web: Web) -> None:
        self._frontier, self._web = frontier, web
        self._complete: dict[int, float] = {}  # since when nothing remains of a task
        self._still: dict[int, tuple[object, float]] = {}  # counters of a task, and since when
        self.longest = 0.0

    def look(self, now: float, active: list[int]) -> Iterator[str]:
        """Violations. ``active``: the tasks that have not ended, from the database."""
        counts = {task: self._frontier.counts(task) for task in active}
        for task in self._complete.keys() - counts.keys():
            del self._complete[task]
        for task, found in counts.items():
            if found is None or found.nr or found.state != "running":
                self._complete.pop(task, None)
                continue
            since = self._complete.setdefault(task, now)
            self.longest = max(self.longest, now - since)
            if now > since + END_WITHIN:
                yield f"task {task} is complete since {since:.1f} s, and has not ended"
        yield from self._stalls(now, counts)

    def _stalls(self, now: float, counts: Mapping[int, Counts | None]) -> Iterator[str]:
        meant = self._frontier.waits.of(counts)
        for task, found in counts.items():
            if found is None or not found.nr or found.delayed or found.parked or task in meant:
                self._still.pop(task, None)
                continue
            seen = (found, len(self._web.fetches))
            before, since = self._still.setdefault(task, (seen, now))
            if seen != before:
                self._still[task] = (seen, now)
            elif now > since + GO_ON_WITHIN:
                yield f"task {task} waits for nothing since {since:.1f} s: {found}"
