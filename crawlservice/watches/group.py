"""Group: the pages of a watch that share a Revisit, with their common statistics and the rest of
their budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlframe.revisit.declared import DAY, Revisit
from crawlframe.revisit.rates import Belief
from crawlframe.revisit.trust import Times, Trust, due_times

MIN_INTERVAL = 60.0  # seconds until a page is visited again, at least: as with ``every``
MAX_INTERVAL = 365 * DAY  # the same, at most
BURST = 1 / 8  # of a day's budget that may be spent at once


class PageGroup(msgspec.Struct, omit_defaults=True):
    """A group as stored in Watch.groups. The prior is of the rates of change, per second.
    ``hosts``: levels of hosts that would need more than their own budget at ``level``."""

    level: float = DAY  # gain of fresh time, in seconds, by importance, that a visit must bring
    hosts: dict[str, float] = {}
    shape: float = 0.5
    time: float = 5 * DAY
    tokens: float | None = None  # visits left; None: none was made yet
    tokens_at: float = 0.0  # seconds since the epoch
    tuned_at: float = 0.0
    learned_from: int = 0  # visits after the first one of a page, for the prior
    replan: int | None = None  # pages with higher numbers are still to be planned anew
    round: int = 0  # of start: the task that runs it
    fresh: float = 0.0  # the sum of the importance of its pages, as far as they are up to date
    whole: float = 0.0  # the sum of all

    @property
    def prior(self) -> Belief:
        return Belief(self.shape, self.time)

    def refill(self, budget: float, now: float) -> float:
        """Visits that may be made now."""
        self.tokens, self.tokens_at = refilled(self.tokens, self.tokens_at, budget, now), now
        return self.tokens

    def times(
        self, policy: Revisit, belief: Belief, trust: Trust, importance: float, host: str
    ) -> Times:
        """When a page of this host is due after a visit, in seconds."""
        if policy.is_optimal:
            level = max(self.level, self.hosts.get(host, 0.0))
            times = due_times(belief, trust, level / importance, MAX_INTERVAL)
            return Times(*(max(MIN_INTERVAL, time) for time in times))
        if policy.by:
            every = policy.interval or MAX_INTERVAL * 100
            return Times(every, 0.0, every)
        return Times(policy.interval, policy.interval, policy.interval)


def refilled(tokens: float | None, at: float, budget: float, now: float) -> float:
    """``budget`` in visits per day, times in seconds."""
    most = max(1.0, BURST * budget)
    return most if tokens is None else min(most, tokens + budget * max(0.0, now - at) / DAY)


def groups_of(kept: Mapping[str, Any]) -> dict[str, PageGroup]:
    """The groups of a watch; unreadable groups start anew."""
    found = {}
    for name, value in kept.items():
        try:
            found[name] = msgspec.convert(value, PageGroup)
        except msgspec.ValidationError:
            found[name] = PageGroup()
    return found


def as_kept(groups: Mapping[str, PageGroup]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(group) for name, group in groups.items()}
