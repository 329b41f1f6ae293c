"""The conditions that can be found, and the thresholds that rules may set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from crawlframe.errors import FieldError
from crawlservice.alerts.condition import Condition
from crawlservice.kinds import registry

GROUP = "crawlframe.alert_conditions"  # of entry points: NAME = "module:CONDITION"


class BadRule(FieldError):
    """A rule or a target that cannot be used. ``field``: where the mistake is."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(field, message)


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


def check_thresholds(thresholds: Mapping[str, Any]) -> dict[str, float]:
    """Returns them as numbers. Raises BadRule."""
    found: dict[str, float] = {}
    for name, value in thresholds.items():
        threshold = conditions()[name].threshold if name in conditions() else None
        if threshold is None:
            able = ", ".join(one.name for one in conditions().values() if one.threshold)
            raise BadRule(f"{name} has no threshold; these have: {able}", "thresholds")
        low, high = threshold.least, threshold.most
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        if wrong or not low <= value <= high:
            raise BadRule(
                f"the threshold of {name} must be a number from {low:g} to {high:g} "
                f"({threshold.unit})",
                "thresholds",
            )
        found[name] = float(value)
    return found


def check_kinds(names: Iterable[str]) -> list[str]:
    """Returns them, each once. Raises BadRule."""
    found, known = [*dict.fromkeys(names)], conditions()
    for name in found:
        if name not in known:
            raise BadRule(f"there is no condition {name}; there are {', '.join(known)}", "kinds")
    return found
