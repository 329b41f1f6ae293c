"""HostCounters: a worker's fetches of each host, until the commit thread adds them to the
database."""

from __future__ import annotations

from collections.abc import Iterable

from crawlframe.run.ledger import NO_ANSWER, HostStats
from crawlframe.run.outcome import Outcome, Verdict

WRITE_SECONDS = 5.0  # seconds
UNCOUNTED = (Verdict.PARK, Verdict.DEFER)  # the host is not to blame
MAX_HOSTS = 5_000  # hosts counted at a time; fetches of others meanwhile are not counted


class HostCounters:
    """Used by the commit thread only."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostStats] = {}
        self._due = 0.0

    def add(self, outcomes: Iterable[Outcome], now: float) -> None:
        """Counts outcomes that are settled. ``now``: seconds of a steady clock."""
        hosts = self._hosts
        if not hosts:
            self._due = now + WRITE_SECONDS
        for outcome in outcomes:
            # Not the first and the last request of a task, whose hosts are no hosts of URLs.
            if outcome.host[:1] == "/" or outcome.cancelled or outcome.verdict in UNCOUNTED:
                continue
            if outcome.excluded and outcome.fetch.status is None:
                continue  # it was not fetched
            stats = hosts.get(outcome.host)
            if stats is None:
                if len(hosts) >= MAX_HOSTS:
                    continue
                stats = hosts[outcome.host] = HostStats()
            answered = outcome.fetch.status is not None
            if answered or outcome.fetch.fetch_ms:
                status = outcome.fetch.status or NO_ANSWER
                stats.statuses[status] = stats.statuses.get(status, 0) + 1
                stats.last_status = outcome.fetch.status
            if answered:
                stats.fetch_ms += outcome.fetch.fetch_ms
                stats.bytes += outcome.fetch.size
            if outcome.reason and not outcome.excluded:
                stats.last_reason = outcome.reason
            if outcome.verdict.final:
                stats.pages += 1
                stats.errors += outcome.verdict is Verdict.ERROR and not outcome.excluded

    def left(self, now: float) -> float | None:
        """Seconds until they should be written; None: there is nothing to write."""
        return max(0.0, self._due - now) if self._hosts else None

    def take(self) -> dict[str, HostStats]:
        """Returns the counts since the last call."""
        taken, self._hosts = self._hosts, {}
        return taken
