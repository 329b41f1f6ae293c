"""Running tasks: findings about them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from crawlservice.alerts.condition import Alarm, Facts, RunningTask, ServiceView, Unknown


def finding_of(
    kind: str, task: RunningTask, since: datetime, value: float | None = None, **facts: Any
) -> Alarm:
    known = {"spider": task.spider, "task": task.number, **facts}
    return Alarm(kind, str(task.number), since, known, value, spider=task.spider, task=task.number)


def uncounted(view: ServiceView) -> Iterator[Unknown]:
    """The tasks that the frontier does not know, as while it is rebuilt."""
    return (Unknown(str(task.number)) for task in view.tasks if task.counts is None)


def name_of(facts: Facts) -> str:
    """A task, in sentences."""
    return f"{facts['spider']} #{facts['task']}"
