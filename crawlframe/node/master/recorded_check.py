"""Kept pages, on which code runs in a process forked from its template, without effects:
RecordedCheck, before a version goes live; PageTrials, for a user who looks at a page."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable
from typing import NamedTuple

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.trials import TrialOrder
from crawlframe.node.child_process import Child
from crawlframe.node.master.offspring import kill_with_all
from crawlframe.node.master.template import Template
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import (
    Checked,
    CheckingPage,
    CheckRecorded,
    CodeLoaded,
    FromChecker,
    ServePages,
)
from crawlframe.node.signals import describe_exit

log = logging.getLogger(__name__)

TRIAL_SECONDS = 30.0  # seconds that one may take
PREVIEW_SECONDS = 1800.0  # the same for a preview of another revision
AT_ONCE = 2  # trials, at most one of them a preview


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
        self._beside: Child | None = None  # the process of the live version
        self._pool = pool
        self._limit = limit
        self._done = done
        self._failing: set[str] = set()  # spiders whose pages fail in the live version
        self._child: Child | None = None
        self._waiting: Template | None = None
        self._spiders: list[str] = []
        self._until: float | None = None
        self._place = ("", "")  # spider and page that is replayed now

    def begin(
        self,
        template: Template,
        live: CodeLoaded | None,
        *,
        waits: bool,
        beside: Template | None = None,
    ) -> bool:
        """Replays the recorded pages of the spiders whose code differs from ``live``, the code of
        the template ``beside``, and runs kept pages with both. Returns whether the template waits
        for the result, if it may wait (``waits``)."""
        self.end()
        before = live.checks if live is not None else {}
        now = template.loaded.checks if template.loaded is not None else {}
        self._spiders = [name for name, mark in now.items() if before.get(name) != mark]
        self._place, self._until = ("", ""), None
        tried = template.loaded.tried if template.loaded is not None and beside is not None else []
        if not self._spiders and tried == []:
            return False
        self._waiting = template if waits else None
        try:
            lines = [] if tried == [] or beside is None else self._line_to(beside)
            try:
                self._child = self._pool.start_checker(template, *lines)
            finally:
                for line in lines:
                    line.close()
            version = live.version if live is not None else ""
            self._pool.send(self._child, CheckRecorded(self._spiders, "", version, tried))
        except OSError as error:
            log.error("the template %d forks no checker: %s", template.child.pid, error)
            self.end()
            template.kill()  # it is loaded again
        return waits

    def _line_to(self, beside: Template) -> list[socket.socket]:
        """Our end of a line to a process of the live version, which runs kept pages."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._beside = self._pool.start_checker(beside, theirs)
            self._pool.send(self._beside, ServePages())
        except OSError as error:
            log.warning("kept pages are not run, the live version forks no process: %s", error)
            ours.close()
            return []
        finally:
            theirs.close()
        return [ours]

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
        return child in (self._child, self._beside)

    def on_message(self, message: FromChecker) -> None:
        match message:
            case CheckingPage(spider, page, kept):
                self._place = spider, f"{'kept' if kept else 'recorded'} page {page}"
            case Checked(problems):
                self._take(problems)

    def on_exit(self, child: Child, code: int | None) -> None:
        """The process has ended before it had a result. That of the live version may: then no more
        kept pages are run."""
        if child is self._beside:
            self._beside = None
            return
        how = "" if code is None else f" ({describe_exit(code)})"
        self._child = None
        self._fail(f"ended the process that replays it{how}")

    def end(self) -> None:
        """Ends the check without a result."""
        children = [one for one in (self._child, self._beside) if one is not None]
        self._child = self._beside = self._waiting = None
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                kill_with_all(child)

    def _fail(self, what: str) -> None:
        spider, page = self._place
        spider = spider or next(iter(self._spiders), "")
        told = f"spider {spider}: {page or 'its pages:'} " if spider else "the check of kept pages "
        self._take({spider: f"{told}{what}"})

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


class RunningTrial(NamedTuple):
    """``until``: time.monotonic() at which it must have ended."""

    child: Child
    until: float
    is_preview: bool


class PageTrials:
    """Runs the live code over kept pages that a user looks at, and previews that users order, on
    one ``node``. ``now`` is time.monotonic()."""

    def __init__(self, pool: WorkerPool, node: str) -> None:
        self._pool = pool
        self._node = node
        self._running: dict[int, RunningTrial] = {}  # by pid

    def end_overdue(self, now: float) -> None:
        """Kills trials that take too long."""
        for pid, (child, until, is_preview) in [*self._running.items()]:
            if child not in self._pool.members:
                del self._running[pid]
            elif now >= until:
                limit = PREVIEW_SECONDS if is_preview else TRIAL_SECONDS
                log.warning("a trial of kept pages took longer than %g s and is killed", limit)
                with contextlib.suppress(ProcessLookupError):
                    kill_with_all(child)

    def tick(self, frontier: Frontier, live: Template | None, now: float) -> None:
        """Takes orders. Raises redis.RedisError."""
        if live is None or live.loaded is None:
            return
        names = {"", *(info.name for info in live.loaded.infos)}
        has_git = bool(live.loaded.revision)

        def fits(order: TrialOrder) -> bool:
            if not order.preview:
                return order.spider in names
            free = not any(one.is_preview for one in self._running.values())
            return free and has_git and order.node in ("", self._node)

        while len(self._running) < AT_ONCE:
            found = frontier.trials.take(fits, 1)
            if not found:
                return
            ((order, what),) = found.items()
            try:
                child = self._pool.start_checker(live)
            except OSError as error:
                log.warning("no process for a trial of kept pages: %s", error)
                return
            self._pool.send(child, CheckRecorded([], order))
            limit = PREVIEW_SECONDS if what.preview else TRIAL_SECONDS
            self._running[child.pid] = RunningTrial(child, now + limit, bool(what.preview))
