"""RuleFields: the fields of a rule and of a target, checked for forms, the API and the command."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import time
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction

from crawlframe.errors import ArgumentError
from crawlservice.alerts.channels import set_address
from crawlservice.alerts.kinds import BadRule, check_kinds, check_thresholds
from crawlservice.models import HOST, SPIDER, AlertRule, AlertTarget, Webhook
from crawlservice.tasks.labels import parse

NAMES = 200  # spiders, hosts or labels of one rule
DEFAULT = "everything"  # the name of the default rule


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
        check_zone(found["timezone"])
    check_quiet(found.get("quiet_from"), found.get("quiet_until"))
    return found


def check_zone(zone: str) -> None:
    """Raises BadRule."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadRule(f"there is no time zone {zone}, such as Asia/Shanghai", "timezone") from None


def check_quiet(start: time | None, end: time | None) -> None:
    """Raises BadRule."""
    if (start is None) != (end is None):
        field = "quiet_from" if start is None else "quiet_until"
        raise BadRule("quiet hours need a beginning and an end", field)
    if start is not None and start == end:
        raise BadRule("quiet hours must end at another time than they start", "quiet_until")


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


def new_target(name: str, kind: str, address: str, webhook: Webhook | None = None) -> AlertTarget:
    """A saved target. Raises BadRule, ConfigError and django.db.Error."""
    if not name.strip() or len(name) > 100:
        raise BadRule("give it a name of 1 to 100 characters", "name")
    if AlertTarget.objects.filter(name=name).exists():
        raise BadRule(f"there is a target {name} already", "name")
    target = AlertTarget(name=name)
    set_address(target, kind, address, webhook)
    target.save()
    return target
