"""RuleFields: the fields of a rule, checked for forms, the API and the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction

from crawlframe.errors import ArgumentError, FieldError
from crawlservice.alerts.condition import conditions
from crawlservice.models import HOST, SPIDER, AlertRule, AlertTarget
from crawlservice.tasks.labels import parse

NAMES = 200  # spiders, hosts or labels of one rule
DEFAULT = "everything"  # the name of the default rule


class BadRule(FieldError):
    """A rule or a target that cannot be used. ``field``: where the mistake is."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(field, message)


def checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The given fields of a rule, as they are stored. Raises BadRule."""
    found = dict(fields)
    if "kinds" in found:
        found["kinds"] = check_kinds(found["kinds"])
    if "thresholds" in found:
        found["thresholds"] = check_thresholds(found["thresholds"])
    for name, most in (("spiders", SPIDER), ("hosts", HOST), ("labels", 0)):
        if name in found:
            found[name] = _names(found[name], name, most)
    if "timezone" in found:
        zone = found["timezone"]
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise BadRule(
                f"there is no time zone {zone}, such as Asia/Shanghai", "timezone"
            ) from None
    start = found.get("quiet_from")
    end = found.get("quiet_until")
    if (start is None) != (end is None):
        field = "quiet_from" if start is None else "quiet_until"
        raise BadRule("quiet hours need a beginning and an end", field)
    if start is not None and start == end:
        raise BadRule("quiet hours must end at another time than they start", "quiet_until")
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


def _names(names: Iterable[str], field: str, most: int) -> list[str]:
    found = [*dict.fromkeys(name.strip() for name in names if name.strip())]
    if len(found) > NAMES:
        raise BadRule(f"{len(found)} {field}; a rule can name {NAMES} at most", field)
    for name in found:
        if field == "labels":
            try:
                parse(name)
            except ArgumentError as error:
                raise BadRule(str(error), field) from None
        elif len(name) > most or not name.isprintable():
            raise BadRule(f"{name[:50]!r} is not a name of {field}", field)
    return ["=".join(parse(name)) for name in found] if field == "labels" else found


@transaction.atomic
def make_default(targets: Iterable[AlertTarget]) -> AlertRule:
    """A rule that reports everything from warnings on to these targets. Adds them to one that
    is there. Raises django.db.Error."""
    rule, _ = AlertRule.objects.get_or_create(name=DEFAULT)
    rule.targets.add(*targets)
    return rule
