"""Rules: what a rule has to report at this moment. Nothing here reads the database or a clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crawlservice.models import AlertRule, Severity

GATHER_SPAN = timedelta(seconds=10)  # so that what happens together is one message


@dataclass(frozen=True)
class KnownAlert:
    """An alert as a rule knows it. ``reported_at``: when the rule reported it last; None: never."""

    number: int
    kind: str
    severity: int
    opened_at: datetime
    value: float | None = None
    spider: str = ""
    host: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    acknowledged: bool = False
    silenced_until: datetime | None = None
    resolved_at: datetime | None = None
    reported_at: datetime | None = None


@dataclass(frozen=True)
class Batch:
    """One message to be made: the numbers of alerts of one condition."""

    kind: str
    new: list[int]
    again: list[int]
    over: list[int]


def wants(rule: AlertRule, alert: KnownAlert) -> bool:
    """Whether the alert is one of those that the rule is about. A rule that names spiders, hosts or
    labels wants only what concerns one of each."""
    if alert.severity < rule.least_severity or (rule.kinds and alert.kind not in rule.kinds):
        return False
    threshold = rule.thresholds.get(alert.kind)
    if threshold is not None and alert.value is not None and alert.value < threshold:
        return False
    return (
        (not rule.spiders or alert.spider in rule.spiders)
        and (not rule.hosts or alert.host in rule.hosts)
        and (not rule.labels or any(f"{k}={v}" in rule.labels for k, v in alert.labels.items()))
    )


def is_quiet(start: time | None, end: time | None, zone: str, now: datetime) -> bool:
    """Whether ``now`` is in the quiet hours, which may cross midnight. An unknown zone is UTC."""
    if start is None or end is None or start == end:
        return False
    try:
        here = now.astimezone(ZoneInfo(zone)).time()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        here = now.astimezone(ZoneInfo("UTC")).time()
    return start <= here < end if start < end else here >= start or here < end


def decide(
    rule: AlertRule, alerts: Iterable[KnownAlert], last: Mapping[str, datetime], now: datetime
) -> list[Batch]:
    """The messages to be made now. ``alerts``: the open ones, and those that are over of which the
    rule has reported and not yet said so. ``last``: by condition, the time of its last message."""
    quiet = is_quiet(rule.quiet_from, rule.quiet_until, rule.timezone, now)
    by_kind: defaultdict[str, list[KnownAlert]] = defaultdict(list)
    for alert in alerts:
        passes = not quiet or (rule.severe_passes and alert.severity >= Severity.SEVERE)
        if passes and (alert.reported_at is not None or wants(rule, alert)):
            by_kind[alert.kind].append(alert)
    found = (_batch(rule, kind, known, last.get(kind), now) for kind, known in by_kind.items())
    return [batch for batch in found if batch is not None]


def _batch(
    rule: AlertRule, kind: str, alerts: list[KnownAlert], last: datetime | None, now: datetime
) -> Batch | None:
    open_ = [
        alert
        for alert in alerts
        if alert.resolved_at is None
        and not alert.acknowledged
        and (alert.silenced_until is None or alert.silenced_until <= now)
    ]
    new = [alert for alert in open_ if alert.reported_at is None]
    again = [alert for alert in open_ if _is_due_again(rule, alert, now)]
    over = [
        alert
        for alert in alerts
        if rule.reports_resolved and alert.resolved_at is not None and alert.reported_at is not None
    ]
    if not (new or again or over):
        return None
    if last is not None and now - last < timedelta(minutes=rule.group_minutes):
        return None  # they wait for the others
    first = min([*(a.opened_at for a in new), *(a.resolved_at or now for a in over)], default=None)
    if not again and first is not None and now - first < GATHER_SPAN:
        return None
    return Batch(kind, *([alert.number for alert in part] for part in (new, again, over)))


def _is_due_again(rule: AlertRule, alert: KnownAlert, now: datetime) -> bool:
    if alert.reported_at is None or not rule.repeat_hours:
        return False
    return now - alert.reported_at >= timedelta(hours=rule.repeat_hours)
