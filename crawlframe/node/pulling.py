"""Pulling: a thread of the supervisor that brings the checkout to what was announced, or to the tip
of the branch."""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue

from crawlframe.checkout import SHORT
from crawlframe.node.follow import Follower
from crawlframe.node.mailbox import Mailbox

log = logging.getLogger(__name__)


class Pulling(threading.Thread):
    """Puts ("pulled", revision, problem, rollout) of each pull into a mailbox; the last is the id
    of the rollout that asked for it, 0 when none did. ``every``: seconds between pulls of the
    branch's tip; 0 for none but what is asked."""

    def __init__(self, follower: Follower, every: float, mailbox: Mailbox) -> None:
        super().__init__(name="pulling", daemon=True)
        self.follows = follower.name
        self._follower = follower
        self._every = every
        self._mailbox = mailbox
        self._asked: SimpleQueue[tuple[str, bool, int]] = SimpleQueue()

    def ask(self, revision: str, back: bool, rollout: int) -> None:
        """Pulls this revision, which may lie behind the one that is checked out if ``back``."""
        self._asked.put((revision, back, rollout))

    def run(self) -> None:
        while True:
            revision: str | None = None
            back, rollout = False, 0
            try:
                revision, back, rollout = self._asked.get(timeout=self._every or None)
            except Empty:
                pass
            pulled = self._follower.pull(revision, back=back)
            if pulled.problem:
                log.error("the pull of %s is refused: %s", revision or self.follows, pulled.problem)
            elif revision is not None:
                log.info("the checkout is at %s", pulled.revision[:SHORT])
            self._mailbox.put("pulled", pulled.revision[:SHORT], pulled.problem, rollout)
