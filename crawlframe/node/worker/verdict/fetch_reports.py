"""FetchReports: the line of a worker's fetches to the frontier, by way of its master."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from crawlframe.fetch.journey.send_time import SendTime
from crawlframe.frontier.client.records import Claimed, Signal
from crawlframe.node.worker.crawl.stage import ClaimedFetch

NEVER = -math.inf  # for a request that does not leave


@dataclass(frozen=True)
class FetchReports:
    """``fetched`` is called for each fetch that is over, with what it says about its host;
    ``sent`` when a request has left, so many seconds ago, that has a time before which it must not,
    or is not to leave. ``moves`` is called with the hosts of a request and of a redirect's target:
    whether the target waits for a claim of its own. ``clock`` returns seconds."""

    fetched: Callable[[Claimed, Signal], None] = lambda claimed, signal: None
    sent: Callable[[Claimed, float], None] = lambda claimed, ago: None
    moves: Callable[[str, str], bool] = lambda host, target: False
    clock: Callable[[], float] = time.perf_counter

    def send_time(self, claimed: Claimed) -> SendTime:
        """From when on a claimed request may be sent."""
        if claimed.due is None:
            return SendTime(clock=self.clock)
        return SendTime(claimed.due, partial(self.sent, claimed, 0.0), self.clock)

    def unsent(self, fetch: ClaimedFetch) -> None:
        """Nothing is sent for this claim: the delay of its host does not count."""
        if fetch.claimed.due is not None:
            self.sent(fetch.claimed, NEVER)

    def end(self, fetch: ClaimedFetch, *, keep_slot: bool = False) -> None:
        """Reports the end of a fetch. ``keep_slot``: its slot of the host is freed later."""
        outcome = fetch.outcome
        outcome.fetch.signal, outcome.fetch.slot = fetch.signal, keep_slot
        if not keep_slot:
            self.fetched(fetch.claimed, fetch.signal)
        outcome.fetch.fetch_ms = round(fetch.send_time.elapsed() * 1000)


NO_REPORTS = FetchReports()
