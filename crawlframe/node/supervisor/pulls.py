"""Pulls: what a supervisor knows of the pulls of its checkout."""

from __future__ import annotations

from crawlframe.frontier.rollouts import Rollout
from crawlframe.node.messages import CheckoutPulled, PullEnded
from crawlframe.node.supervisor.git import PullThread


class Pulls:
    """Of one supervisor. None are made without ``pulling``."""

    def __init__(self, pulling: PullThread | None) -> None:
        self._pulling = pulling
        self.follows = pulling.follows if pulling else ""  # "origin/main"
        self.last = CheckoutPulled("", "", 0)
        self.rollout = 0  # id of the last announcement that was heeded
        self.owed = 0  # announced ones that have not ended

    def start(self) -> None:
        """They may be made from now on."""
        if self._pulling is not None:
            self._pulling.start()

    def request(self, rollout: Rollout) -> None:
        """This revision was announced to the node."""
        if self._pulling is not None:
            self.rollout = rollout.id
            self.owed += 1
            self._pulling.ask(rollout.revision, rollout.back, rollout.id)

    def end(self, pull: PullEnded) -> None:
        """One has ended; ``last`` says how."""
        self.owed -= bool(pull.rollout)
        answered = pull.rollout or self.last.rollout
        self.last = CheckoutPulled(pull.revision, pull.problem, answered)
