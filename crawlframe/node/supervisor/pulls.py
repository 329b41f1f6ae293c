"""Pulls: the state of a supervisor's pulls of its checkout."""

from __future__ import annotations

from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node.supervisor.git import PullThread
from crawlframe.node.supervisor.mailbox import PullEnded
from crawlframe.node.supervisor_messages import CheckoutPulled


class Pulls:
    """The pulls of one supervisor. There are none without ``pulling``."""

    def __init__(self, pulling: PullThread | None) -> None:
        self._pulling = pulling
        self.every = pulling.every if pulling else 0.0  # seconds between pulls of the tip; 0: none
        self.follows = pulling.follows if pulling else ""  # "origin/main"
        self.last = CheckoutPulled("", "", 0)
        self.rollout = 0  # id of the last rollout that was acted on
        self.owed = 0  # requested pulls that have not ended

    def start(self) -> None:
        """Starts the thread that pulls."""
        if self._pulling is not None:
            self._pulling.start()

    def request(self, rollout: Rollout) -> None:
        """Pulls the announced revision."""
        if self._pulling is not None:
            self.rollout = rollout.id
            self.owed += 1
            self._pulling.ask(rollout.revision, rollout.back, rollout.id)

    def end(self, pull: PullEnded) -> None:
        """Records the end of a pull; its result is ``last``."""
        self.owed -= bool(pull.rollout)
        answered = pull.rollout or self.last.rollout
        self.last = CheckoutPulled(pull.revision, pull.problem, answered)
