"""Kinds: the conditions that can be found, each with its severity and its threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.models import Severity

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

HYSTERESIS = 0.95  # part of its threshold below which a value must fall for its alert to be over


class BadRule(CrawlframeError):
    """A rule or a target that cannot be used. ``field``: where the mistake is."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Threshold:
    """The value from which a condition counts, unless a rule has another. ``unit``: of both."""

    usual: float
    unit: _StrPromise
    least: float
    most: float


@dataclass(frozen=True)
class Kind:
    """One condition. ``threshold`` is None if it is either there or not."""

    name: str
    title: _StrPromise
    severity: Severity
    threshold: Threshold | None = None


_PERCENT = _("percent")
_MINUTES = _("minutes")

# In the order of their urgency.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "no_leader",
            _("no node leads"),
            Severity.SEVERE,
            Threshold(0.5, _MINUTES, 0.5, 1440),
        ),
        Kind("chores", _("chores fail"), Severity.SEVERE),
        Kind("node_gone", _("node offline"), Severity.SEVERE),
        Kind("task_failed", _("task failed"), Severity.SEVERE),
        Kind("quality", _("quality of items"), Severity.SEVERE),
        Kind("silent", _("silent task"), Severity.SEVERE, Threshold(10, _MINUTES, 0.5, 10_080)),
        Kind("schedule", _("schedule cannot start"), Severity.SEVERE),
        Kind("schedule_missed", _("start missed"), Severity.WARNING),
        Kind("code_refused", _("code refused"), Severity.SEVERE),
        Kind(
            "delivery",
            _("items not delivered"),
            Severity.SEVERE,
            Threshold(1, _MINUTES, 0.1, 10_080),
        ),
        Kind(
            "proxy_missing",
            _("no proxy"),
            Severity.SEVERE,
            Threshold(0.5, _MINUTES, 0.1, 10_080),
        ),
        Kind("disk", _("disk nearly full"), Severity.SEVERE, Threshold(90, _PERCENT, 1, 100)),
        Kind(
            "redis_memory",
            _("Redis memory nearly full"),
            Severity.SEVERE,
            Threshold(85, _PERCENT, 1, 100),
        ),
        Kind("error_share", _("errors in a running task"), Severity.WARNING,
             Threshold(20, _PERCENT, 0.1, 100)),
        Kind("task_errors", _("task with errors"), Severity.WARNING),
        Kind("host_held", _("host held"), Severity.WARNING),
        Kind("parked", _("requests parked"), Severity.WARNING),
        Kind("queue_age", _("requests wait long"), Severity.WARNING,
             Threshold(60, _MINUTES, 1, 10_080)),
    )
}  # fmt: skip


def least(rules: Iterable[Any]) -> dict[str, float]:
    """The value from which each condition counts for anybody: the usual one, or the least of
    ``rules``, which are thresholds of rules by condition."""
    found = {name: kind.threshold.usual for name, kind in KINDS.items() if kind.threshold}
    for thresholds in rules:
        for name, value in thresholds.items() if isinstance(thresholds, Mapping) else ():
            if name in found and isinstance(value, int | float):
                found[name] = min(found[name], float(value))
    return found


def check_thresholds(thresholds: Mapping[str, Any]) -> dict[str, float]:
    """Returns them as numbers. Raises BadRule."""
    found: dict[str, float] = {}
    for name, value in thresholds.items():
        kind = KINDS.get(name)
        if kind is None or kind.threshold is None:
            able = ", ".join(one.name for one in KINDS.values() if one.threshold)
            raise BadRule(f"{name} has no threshold; these have: {able}", "thresholds")
        low, high = kind.threshold.least, kind.threshold.most
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        if wrong or not low <= value <= high:
            raise BadRule(
                f"the threshold of {name} must be a number from {low:g} to {high:g} "
                f"({kind.threshold.unit})",
                "thresholds",
            )
        found[name] = float(value)
    return found


def check_kinds(names: Iterable[str]) -> list[str]:
    """Returns them, each once. Raises BadRule."""
    found = [*dict.fromkeys(names)]
    for name in found:
        if name not in KINDS:
            raise BadRule(f"there is no condition {name}; there are {', '.join(KINDS)}", "kinds")
    return found
