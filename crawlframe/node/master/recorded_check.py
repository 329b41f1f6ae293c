"""Kept pages, on which code runs in a process forked from its template, without effects:
RecordedCheck, before a version goes live; PageTrials, for a user who looks at a page."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.trials import TrialOrder
from crawlframe.node.child_process import Child
from crawlframe.node.master.offspring import kill_with_all
from crawlframe.node.master.template import Template
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import Checked, CheckingPage, CheckRecorded, CodeLoaded, FromChecker
from crawlframe.node.signals import describe_exit

log = logging.getLogger(__name__)

TRIAL_SECONDS = 30.0  # seconds that one may take
AT_ONCE = 2  # trials


class RecordedCheck:
    """One check at a time, in a process forked from a template of ``pool``. It has a result within
    ``limit`` seconds. ``done`` is called with the template that may go live now (None if it was
    live already), and its problems. ``now`` is time.monotonic()."""

    def __init__(
        self,
        pool: WorkerPool,
        limit: float,
        done: Callable[[Template | None, dict[str, str]], None],
    ) -> None:
        self._pool = pool
        self._limit = limit
        self._done = done
        self._failing: set[str] = set()  # spiders whose pages fail in the live version
        self._child: Child | None = None
        self._waiting: Template | None = None
        self._spiders: list[str] = []
        self._until: float | None = None
        self._place = ("", "")  # spider and page that is replayed now

    def begin(self, template: Template, live: CodeLoaded | None, *, waits: bool) -> bool:
        """Replays the pages of the spiders whose code differs from ``live``. Returns whether the
        template waits for the result, if it may wait (``waits``)."""
        self.end()
        before = live.checks if live is not None else {}
        now = template.loaded.checks if template.loaded is not None else {}
        self._spiders = [name for name, mark in now.items() if before.get(name) != mark]
        self._place, self._until = ("", ""), None
        if not self._spiders:
            return False
        self._waiting = template if waits else None
        try:
            self._child = self._pool.start_checker(template)
            self._pool.send(self._child, CheckRecorded(self._spiders))
        except OSError as error:
            log.error("the template %d forks no checker: %s", template.child.pid, error)
            self.end()
            template.kill()  # it is loaded again
        return waits

    def holds(self, template: Template) -> bool:
        """Whether a template waits for its result."""
        return self._waiting is template

    def tick(self, now: float) -> None:
        """Ends a check that takes too long."""
        if self._child is None:
            return
        if self._until is None:
            self._until = now + self._limit
        if now >= self._until:
            self._fail(
                f"took longer than {self._limit:g} s; if it is not stuck, raise "
                "CRAWLFRAME_CHECK_TIMEOUT and restart the node, or record fewer pages"
            )

    def is_of(self, child: Child) -> bool:
        return self._child is child

    def on_message(self, message: FromChecker) -> None:
        match message:
            case CheckingPage(spider, page):
                self._place = spider, page
            case Checked(problems):
                self._take(problems)

    def on_exit(self, code: int | None) -> None:
        """The process has ended before it had a result."""
        how = "" if code is None else f" ({describe_exit(code)})"
        self._child = None
        self._fail(f"ended the process that replays it{how}")

    def end(self) -> None:
        """Ends the check without a result."""
        child, self._child, self._waiting = self._child, None, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                kill_with_all(child)

    def _fail(self, what: str) -> None:
        spider, page = self._place
        spider = spider or self._spiders[0]
        where = f"recorded page {page}" if page else "its recorded pages:"
        self._take({spider: f"spider {spider}: {where} {what}"})

    def _take(self, problems: dict[str, str]) -> None:
        """A page that fails in the live version as well is no reason to refuse the new version."""
        waiting, checked = self._waiting, {*self._spiders}
        worse = {name: text for name, text in problems.items() if name not in self._failing}
        self.end()
        if waiting is None or not worse:
            self._failing = (self._failing - checked) | problems.keys()
            for problem in problems.values():
                log.error("in the live version, %s", problem)
            worse = problems if waiting is None else {}
        self._done(waiting, worse)


class PageTrials:
    """Runs the live code over kept pages that a user looks at, on one node. ``now`` is
    time.monotonic()."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._running: dict[int, tuple[Child, float]] = {}  # pid -> process, when it must end

    def end_overdue(self, now: float) -> None:
        """Kills trials that take too long."""
        for pid, (child, until) in [*self._running.items()]:
            if child not in self._pool.members:
                del self._running[pid]
            elif now >= until:
                log.warning(
                    "a trial of a kept page took longer than %g s and is killed", TRIAL_SECONDS
                )
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
            self._running[child.pid] = child, now + TRIAL_SECONDS
