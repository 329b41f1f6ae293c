"""Activity of the ledger: logs of tasks and statistics of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlframe.run.ledger import ActivityLedger, HostStats, LogLine
from crawlservice.ledger import host_stats
from crawlservice.ledger.named_errors import with_named_errors
from crawlservice.tasks.progress import log


@with_named_errors
class ActivityRows(ActivityLedger):
    """Rows about activity, on this thread's connection."""

    def add_host_stats(self, hosts: Mapping[str, HostStats]) -> None:
        host_stats.add(hosts)

    def add_log(self, lines: Sequence[LogLine], lost: Mapping[int, int]) -> None:
        log.add(lines, lost)
