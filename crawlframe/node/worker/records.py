"""Records: the parts of a task that a worker writes or reads before an outcome is committed."""

from __future__ import annotations

from dataclasses import dataclass

from crawlframe.node.worker.pages.kept_pages import KeptPages
from crawlframe.node.worker.start.start_run import StartRuns


@dataclass(frozen=True)
class Records:
    """``starts`` records the parts of a start; None: nothing is recorded before an outcome.
    ``kept`` reads the pages that are parsed again; None: none is."""

    starts: StartRuns | None = None
    kept: KeptPages | None = None


NO_RECORDS = Records()
