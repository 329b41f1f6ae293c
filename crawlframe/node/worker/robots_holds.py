"""Holds: how requests go back to the frontier that a robots.txt holds up."""

from __future__ import annotations

import math
from collections.abc import Callable

from crawlframe.bounded_dict import BoundedDict
from crawlframe.node.worker.site_files import SHORTLY, Wait
from crawlframe.outcome import Outcome, Verdict

MAX_HOLDS = 10_000  # requests remembered


class Holds:
    """The requests of one worker. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # rid -> when the frontier may let it go
        self._until: BoundedDict[bytes, float] = BoundedDict(MAX_HOLDS)

    def hold(self, outcome: Outcome, wait: Wait) -> None:
        """The request goes back to the head of its lane, where the frontier holds all of its host;
        its slot is freed with that. It is put off instead where the frontier does not hold it: for
        another host than its own, while another worker reads the file, or if it comes back early,
        as requests of a task do that was opened by an older version."""
        now = self._clock()
        early = self._until.pop(outcome.rid, 0.0) > now
        if wait.host != outcome.host or wait.shortly or early:
            delay = math.ceil(1000 * max(wait.seconds, SHORTLY))
            why = f"the robots.txt of {wait.host} is not known yet"
            outcome.end(Verdict.DEFER, "robots", why, delay)
            return
        if wait.seconds:
            self._until[outcome.rid] = now + 0.9 * wait.seconds
        outcome.end(Verdict.RELEASE)
