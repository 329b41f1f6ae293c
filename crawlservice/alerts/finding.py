"""Finding: that a condition is there, and what conditions are found from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from crawlframe.frontier import Counts, Frontier
from crawlservice.alerts.kinds import HYSTERESIS
from crawlservice.models import Severity

MOST = 500  # subjects of one condition in a look


@dataclass(frozen=True)
class Finding:
    """``subject``: what has the condition; an open alert of the same kind and subject goes on.
    ``since``: when it began. ``facts``: what its sentence says; JSON. ``value``: compared with
    thresholds; None: there is none. ``task``: whose labels it gets."""

    kind: str
    subject: str
    since: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)
    value: float | None = None
    spider: str = ""
    host: str = ""
    task: int | None = None
    severity: Severity | None = None  # None: that of its kind


@dataclass(frozen=True)
class Unknown:
    """It is unknown whether ``subject`` has the condition, so its open alert stays; None: whether
    any other one has it."""

    subject: str | None = None


@dataclass(frozen=True)
class RunningTask:
    """A task that has not ended, with the frontier's counts if it knows the task."""

    number: int
    spider: str
    counts: Counts | None


@dataclass(frozen=True)
class View:
    """What conditions are found from. ``least``: by condition, the value from which it counts."""

    now: datetime  # by the clock of the database
    frontier: Frontier
    tasks: list[RunningTask]
    least: Mapping[str, float]

    def floor(self, kind: str) -> float:
        """The value from which a condition is found: an open alert goes on a little below the
        threshold, so that it does not come and go."""
        return self.least[kind] * HYSTERESIS
