"""Pulls: the pulls of a supervisor's checkout, in a thread of their own, and their state."""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue

from crawlframe.code.checkout import DIGITS
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node.supervisor.git import Follower
from crawlframe.node.supervisor.mailbox import Mailbox
from crawlframe.node.supervisor_messages import CheckoutPulled

log = logging.getLogger(__name__)


class Pulls:
    """``follower`` pulls; None: there are no pulls. The mailbox gets a CheckoutPulled for each.
    ``every``: seconds between pulls of the tip of the branch; 0: only requested ones."""

    def __init__(self, follower: Follower | None, every: float, mailbox: Mailbox) -> None:
        self._follower = follower
        self._mailbox = mailbox
        self._asked: SimpleQueue[Rollout] = SimpleQueue()
        self.every = every if follower else 0.0
        self.follows = follower.name if follower else ""  # "origin/main"
        self.last = CheckoutPulled("", "", 0)
        self.rollout = 0  # id of the last rollout that was acted on
        self.owed = 0  # requested pulls that have not ended

    def start(self) -> None:
        """Starts the thread."""
        if self._follower is not None:
            pull = threading.Thread(
                target=self._run, args=(self._follower,), name="pulling", daemon=True
            )
            pull.start()

    def request(self, rollout: Rollout) -> None:
        """Pulls the announced revision."""
        if self._follower is not None:
            self.rollout = rollout.id
            self.owed += 1
            self._asked.put(rollout)

    def end(self, pull: CheckoutPulled) -> None:
        """Records the end of a pull; its result is ``last``."""
        self.owed -= bool(pull.rollout)
        answered = pull.rollout or self.last.rollout
        self.last = CheckoutPulled(pull.revision, pull.problem, answered)

    def _run(self, follower: Follower) -> None:
        while True:
            asked: Rollout | None = None
            try:
                asked = self._asked.get(timeout=self.every or None)
            except Empty:
                pass
            revision = asked.revision if asked else None
            pulled = follower.pull(revision, back=asked is not None and asked.back)
            if pulled.problem:
                log.error("the pull of %s is refused: %s", revision or self.follows, pulled.problem)
            elif asked is not None:
                log.info("the checkout is at %s", pulled.revision[:DIGITS])
            rollout = asked.id if asked else 0
            self._mailbox.put(CheckoutPulled(pulled.revision[:DIGITS], pulled.problem, rollout))
