"""What spiders are told of their task when it is taken up and when it ends."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple


class TaskInfo(NamedTuple):
    """A task, for ``opened``. ``arguments`` are as they were submitted."""

    id: int
    spider: str
    arguments: dict[str, Any]
    priority: int


class Summary(NamedTuple):
    """How a task ended, for ``closed``. ``outcome``: "finished", "finished_with_errors", "failed"
    or "cancelled"; ``reason`` says why in a sentence, or is "". ``errors`` are without those that
    were ``cancelled``. ``stats`` and ``maxima`` are what self.stats counted, by name."""

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
