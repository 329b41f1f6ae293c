"""Changes: what the watch saw, until the code has been quiet."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from crawlframe.node.code import PACKAGES, Code

log = logging.getLogger(__name__)

BUSY_LOOK = 0.05  # seconds between two looks whether git has let go of its lock
BUSY_WARN = 10.0  # seconds after which a lock is told of
PACKAGES_QUIET = 2.0  # seconds without change after which an installation counts as done


class Changes:
    """``at`` is when the last change was seen (time.monotonic()), None when all are dealt with;
    ``installed``: packages are among them."""

    def __init__(self, code: Code, quiet: float) -> None:
        self.at: float | None = None
        self.installed = False
        self._code = code
        self._quiet = quiet  # seconds
        self._quiet_at = 0.0
        self._busy_since: float | None = None

    def add(self, when: float, path: Path) -> None:
        """A path changed at that time."""
        log.debug("%s changed", path)
        installed = path.name in PACKAGES
        self.installed |= installed
        self.note(when, PACKAGES_QUIET if installed else self._quiet)

    def note(self, when: float, quiet: float | None = None) -> None:
        """There is a change to deal with, after ``quiet`` seconds without another."""
        self.at = when
        self._quiet_at = max(self._quiet_at, when + (self._quiet if quiet is None else quiet))

    def wait(self) -> None:
        """They cannot be dealt with yet."""
        self._quiet_at = time.monotonic() + BUSY_LOOK

    def take(self) -> float:
        """They are being dealt with; answers when the last one was seen."""
        at, self.at, self.installed = self.at, None, False
        assert at is not None
        return at

    @property
    def left(self) -> float | None:
        """Seconds until ``are_due`` is to be asked; None when nothing changed."""
        return None if self.at is None else max(0.0, self._quiet_at - time.monotonic())

    def are_due(self) -> bool:
        """Has the code changed and been quiet since, and does git leave it alone?"""
        if self.at is None or time.monotonic() < self._quiet_at:
            return False
        if not self._code.busy:
            self._busy_since = None
            return True
        now = time.monotonic()
        if self._busy_since is None:
            self._busy_since = now
        elif now - self._busy_since > BUSY_WARN:
            self._busy_since = now
            lock = self._code.checkout and self._code.checkout.lock
            log.warning("a reload waits for git; if none runs, remove %s", lock)
        self.wait()
        return False
