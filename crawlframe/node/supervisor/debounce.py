"""Changes: collects changes to the code until it has been quiet."""

from __future__ import annotations

import logging
from pathlib import Path

from crawlframe.code.source import INSTALLED
from crawlframe.node.code import Code

log = logging.getLogger(__name__)

BUSY_POLL = 0.05  # seconds between two checks whether git or an installer has finished
BUSY_WARN = 10.0  # seconds after which the wait is reported
PACKAGES_QUIET = 2.0  # seconds without a change after which an installation counts as complete


class Changes:
    """``at`` is when the last change was seen, None when all are handled; times are of
    time.monotonic(). ``installed``: packages are among them; ``again``: code that was refused is to
    be tried again."""

    def __init__(self, code: Code, quiet: float) -> None:
        self.at: float | None = None
        self.installed = self.again = False
        self._code = code
        self._quiet = quiet  # seconds
        self._quiet_at = 0.0
        self._busy_since: float | None = None
        self._went_ahead = False

    def add(self, when: float, path: Path, *, again: bool) -> None:
        """A path changed at that time; if ``again``, its code is to be tried again even if it was
        refused, unless git only changed a file of its own."""
        log.debug("%s changed", path)
        installed = path.name in INSTALLED
        self.installed |= installed
        again &= path not in self._code.marks
        self.note(when, PACKAGES_QUIET if installed else self._quiet, again=again)

    def note(self, when: float, quiet: float | None = None, *, again: bool = False) -> None:
        """There is a change to handle, after ``quiet`` seconds without another."""
        self.at = when
        self.again |= again
        self._quiet_at = max(self._quiet_at, when + (self._quiet if quiet is None else quiet))

    def go_ahead(self) -> float | None:
        """When the last change was seen, if the code may be preloaded before it is quiet; else
        None. Returns a time only once for all changes so far."""
        if self.at is None or self._went_ahead or self._code.busy:
            return None
        self._went_ahead = True
        return self.at

    def wait(self, now: float) -> None:
        """The changes cannot be handled yet."""
        self._quiet_at = now + BUSY_POLL

    def take(self) -> float:
        """Marks the changes as handled; returns the time of the last."""
        at, self.at = self.at, None
        self.installed = self.again = self._went_ahead = False
        assert at is not None
        return at

    def left(self, now: float) -> float | None:
        """Seconds until ``are_due`` is to be called; None when nothing changed."""
        return None if self.at is None else max(0.0, self._quiet_at - now)

    def are_due(self, now: float) -> bool:
        """Whether the code has changed and been quiet since, and neither git nor an installer is
        changing it."""
        if self.at is None or now < self._quiet_at:
            return False
        busy = self._code.busy
        if not busy:
            self._busy_since = None
            return True
        if self._busy_since is None:
            self._busy_since = now
        elif now - self._busy_since > BUSY_WARN:
            self._busy_since = now
            log.warning("a reload waits for %s", busy)
        self.wait(now)
        return False
