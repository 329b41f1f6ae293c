"""Condition: a state that opens an alert. Each kind is a Condition in a module of ``conditions/``,
or of an installed package (docs/howto/alerts.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from crawlframe.frontier import Counts, Frontier, NodeInfo
from crawlservice.connections.presence import Rows
from crawlservice.kinds import registry
from crawlservice.models import Severity

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


GROUP = "crawlframe.alert_conditions"  # of entry points: NAME = "module:CONDITION"
MAX_SUBJECTS = 500  # of one condition in a look
MAX_LINE = 300  # characters of a problem
HYSTERESIS = 0.95  # part of its threshold below which a value must fall for its alert to be over
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Alarm:
    """A subject that has a condition. ``subject`` identifies it; an open alert of the same
    condition and subject continues. ``since``: its start. ``facts``: JSON, for sentence and link.
    ``value``: compared with thresholds; None: there is none. ``task``: gives the alert its
    labels. ``acknowledged_at``: since when a person takes care of it."""

    kind: str
    subject: str
    since: datetime
    facts: Facts = field(default_factory=dict)
    value: float | None = None
    spider: str = ""
    host: str = ""
    task: int | None = None
    severity: Severity | None = None  # None: as its condition
    acknowledged_at: datetime | None = None


@dataclass(frozen=True)
class Unknown:
    """It is unknown whether ``subject`` has the condition, so its open alert stays; None: of any
    other subject."""

    subject: str | None = None


@dataclass(frozen=True)
class RunningTask:
    """A task that has not ended, with the frontier's counts if it knows the task."""

    number: int
    spider: str
    counts: Counts | None


@dataclass(frozen=True)
class ServiceView:
    """The state of the service in one look. ``least``: by condition, the value from which it
    counts. ``memory``: of the process that looks, for conditions that compare looks."""

    now: datetime  # by the clock of the database
    connect: Callable[[], Frontier]
    tasks: list[RunningTask]
    least: Mapping[str, float]
    memory: dict[str, Any] = field(default_factory=dict)

    @property
    def frontier(self) -> Frontier:
        """Raises CrawlframeError if Redis is another installation's."""
        return self.connect()

    @cached_property
    def living(self) -> list[NodeInfo]:
        """The latest life of each node. Raises redis.RedisError."""
        nodes = self.frontier.leases.nodes()
        latest = {one.node: one for one in nodes if one.lease_left > 0 and not one.leaving}
        return [*latest.values()][: MAX_SUBJECTS + 1]

    def floor(self, kind: str) -> float:
        """The value from which a condition is found: an open alert continues a little below the
        threshold, so that it does not come and go."""
        return self.least[kind] * HYSTERESIS

    def minutes_since(self, moment: datetime) -> float:
        return (self.now - moment).total_seconds() / 60


@dataclass(frozen=True)
class Threshold:
    """The value from which a condition counts, unless a rule has another. ``unit``: of both."""

    usual: float
    unit: _StrPromise
    least: float
    most: float


@dataclass(frozen=True)
class Condition:
    """``find`` yields a Finding for each thing that has the condition now. It runs every 5 seconds
    in the leading steward, so its queries need an index and a limit. It may raise
    redis.RedisError, FrontierError and django.db.Error: then nothing changes.

    ``sentence`` and ``link`` get the facts of an alert, maybe of another release: a KeyError is
    answered with the title. ``link`` is the path of the page of the cause; "": the alert's page.
    ``threshold`` is None if it is either there or not. ``urgency``: among conditions of the same
    severity, the lower is listed first."""

    name: str
    title: _StrPromise
    severity: Severity
    find: Callable[[ServiceView], Iterable[Alarm | Unknown]]
    sentence: Callable[[Facts], str]
    link: Callable[[Facts], str] = lambda facts: ""
    threshold: Threshold | None = None
    urgency: int = 100
    # The process that looks. The web finds its conditions although no node leads.
    by_leader: bool = True
    by_web: bool = False
    # Rows without which no subject has it; one query asks for the rows of all conditions.
    rows: Rows | None = None


def filled(sentence: _StrPromise) -> Callable[[Facts], str]:
    """A sentence whose placeholders are names of facts."""
    return lambda facts: str(sentence).format_map(facts)


def first_line(problem: str) -> str:
    """A problem, as long as a sentence may quote it."""
    return problem.partition("\n")[0][:MAX_LINE]


@cache
def conditions() -> dict[str, Condition]:
    """All of them by name, the most urgent first."""
    package = f"{__name__.rpartition('.')[0]}.conditions"
    found = registry.find(package, GROUP, Condition)
    order = sorted(found.values(), key=lambda one: (-one.severity, one.urgency, one.name))
    return {one.name: one for one in order}


def least(rules: Iterable[Any]) -> dict[str, float]:
    """The value from which each condition counts for anybody: the usual one, or the least of
    ``rules``, which are thresholds of rules by condition."""
    found = {name: one.threshold.usual for name, one in conditions().items() if one.threshold}
    for thresholds in rules:
        for name, value in thresholds.items() if isinstance(thresholds, Mapping) else ():
            if name in found and isinstance(value, int | float):
                found[name] = min(found[name], float(value))
    return found
