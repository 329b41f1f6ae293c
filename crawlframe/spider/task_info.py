"""Arguments of a spider's ``opened`` and ``closed``: its task, and the summary of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple


class TaskInfo(NamedTuple):
    """A task, as passed to ``opened``. ``arguments`` are as they were submitted."""

    id: int
    spider: str
    arguments: dict[str, Any]
    priority: int


class Summary(NamedTuple):
    """The end of a task, as passed to ``closed``. ``outcome``: "finished", "finished_with_errors",
    "failed" or "cancelled"; ``reason`` explains it in a sentence, or is "". ``errors`` excludes
    requests that were ``cancelled``, or ``excluded`` for politeness. ``stats`` and ``maxima`` are
    the counts of self.stats, by name."""

    task: int
    spider: str
    arguments: dict[str, Any]
    outcome: str
    reason: str
    started_at: datetime
    finished_at: datetime
    requests: int
    done: int
    errors: int
    cancelled: int
    items: int
    stats: dict[str, int]
    maxima: dict[str, int | float]
    excluded: int = 0
