"""Announcements: makes the messages that rules have to send, each once.

Messages, and the notices that they were made, are written in one transaction that has locked the
rule and its targets. So a leader that dies has written both or nothing, and of two leaders only one
writes. A target gets an alert once, however many of its rules report it. Targets with the name of
an owner also get the alerts of the owner's spiders, whichever rule reports them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import chain
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction
from django.db.models import Max, Q

from crawlservice.alerts import wording
from crawlservice.connections.contained import contained
from crawlservice.models import (
    OPEN,
    Alert,
    AlertMessage,
    AlertNotice,
    AlertReport,
    AlertRule,
    AlertTarget,
    Severity,
)
from crawlservice.monitoring.owners import all_owners, owners

GATHER_SPAN = timedelta(seconds=10)  # so that simultaneous alerts are one message
# A target, and the spiders of whose alerts it is told; None: of all.
Receiver = tuple[AlertTarget, set[str] | None]
SENDABLE = Q(next_at__isnull=False, target__enabled=True)


def announce(now: datetime) -> bool:
    """Makes the messages that are due now. Returns whether one is to be sent. Raises
    django.db.Error."""
    rules = [*AlertRule.objects.filter(enabled=True)]
    if rules:
        alerts = {alert.pk: alert for alert in Alert.objects.filter(OPEN)}
        for rule in rules:
            with contained(f"alert rule {rule.pk}"):
                if _batches(rule, alerts, now):
                    _announce(rule.pk, now)
    # The end of these alerts is not reported when their rule is enabled again.
    rows = AlertNotice.objects.filter(over=False, rule__enabled=False)
    if rows.exists():
        rows.filter(~Q(alert__resolved_at=None)).update(over=True)
    return AlertMessage.objects.filter(SENDABLE, next_at__lte=now).exists()


@transaction.atomic
def _announce(number: int, now: datetime) -> None:
    rule = AlertRule.objects.select_for_update().filter(pk=number, enabled=True).first()
    if rule is None:
        return
    alerts = {alert.pk: alert for alert in Alert.objects.filter(OPEN)}
    receivers = _receivers(rule)
    if not receivers:  # reported when there is one
        return
    if None not in (spiders := [some for _, some in receivers]):  # others wait for a target
        told = {*chain.from_iterable(filter(None, spiders))}
        alerts = {pk: alert for pk, alert in alerts.items() if wording.spiders_of(alert) & told}
    for batch in _batches(rule, alerts, now):
        _write(rule, receivers, batch, alerts, now)


def _receivers(rule: AlertRule) -> list[Receiver]:
    """The targets of a rule, and those with the names of owners of spiders, locked."""
    of_rule, known = {*rule.targets.values_list("pk", flat=True)}, owners()
    chosen = AlertTarget.objects.filter(Q(pk__in=of_rule) | Q(name__in=all_owners()), enabled=True)
    return [
        (
            target,
            None if target.pk in of_rule else {s for s, n in known.items() if target.name in n},
        )
        for target in chosen.select_for_update(no_key=True).order_by("pk")  # rules may share one
    ]


def _batches(rule: AlertRule, alerts: dict[int, Alert], now: datetime) -> list[Batch]:
    """Adds to ``alerts`` the resolved alerts whose end was not yet reported."""
    told = dict(
        AlertNotice.objects.filter(rule=rule, over=False).values_list("alert_id", "reported_at")
    )
    gone = told.keys() - alerts.keys()
    if gone:
        alerts.update(Alert.objects.exclude(OPEN).in_bulk([*gone]))
        if not rule.reports_resolved:
            _finish(rule, gone)
    known = [alert for pk, alert in alerts.items() if alert.resolved_at is None or pk in told]
    lately = now - timedelta(minutes=rule.group_minutes)
    last = AlertMessage.objects.filter(rule=rule, created_at__gt=lately).order_by().values("kind")
    return decide(rule, known, told, dict(last.values_list("kind", Max("created_at"))), now)


def _write(
    rule: AlertRule,
    receivers: Iterable[Receiver],
    batch: Batch,
    alerts: Mapping[int, Alert],
    now: datetime,
) -> None:
    messages, reports = [], []
    for target, spiders in receivers:
        if spiders is None:
            part = _untold(rule, target, batch, now)
        else:
            its = {pk for pk, alert in alerts.items() if wording.spiders_of(alert) & spiders}
            part = _untold(rule, target, batch.of(its), now)
        if not (part.new or part.again or part.over):
            continue
        messages.append(_message(rule, target, part, alerts, now))
        told = {**dict.fromkeys((*part.new, *part.again), False), **dict.fromkeys(part.over, True)}
        reports += [
            AlertReport(target=target, alert_id=number, reported_at=now, over=over)
            for number, over in told.items()
        ]
    AlertMessage.objects.bulk_create(messages)
    AlertReport.objects.bulk_create(
        reports,
        update_conflicts=True,
        unique_fields=["target", "alert"],
        update_fields=["reported_at", "over"],
    )
    AlertNotice.objects.bulk_create(
        [AlertNotice(rule=rule, alert_id=number, reported_at=now) for number in batch.new],
        ignore_conflicts=True,
    )
    AlertNotice.objects.filter(rule=rule, alert__in=batch.again).update(reported_at=now)
    _finish(rule, batch.over)


def _untold(rule: AlertRule, target: AlertTarget, batch: Batch, now: datetime) -> Batch:
    """The part of a batch that no other rule has reported to this target."""
    numbers = [*batch.new, *batch.again, *batch.over]
    known = AlertReport.objects.filter(target=target, alert__in=numbers)
    told = {pk: (at, over) for pk, at, over in known.values_list("alert", "reported_at", "over")}
    recent = now - timedelta(hours=rule.repeat_hours)
    return Batch(
        batch.kind,
        [number for number in batch.new if number not in told],
        [number for number in batch.again if number not in told or told[number][0] <= recent],
        [number for number in batch.over if number not in told or not told[number][1]],
    )


def _message(
    rule: AlertRule, target: AlertTarget, part: Batch, alerts: Mapping[int, Alert], now: datetime
) -> AlertMessage:
    new, again, over = ([alerts[pk] for pk in pks] for pks in (part.new, part.again, part.over))
    title, text, content = wording.message(part.kind, new, again, over)
    content |= {"rule": rule.name, "numbers": [*part.new, *part.again, *part.over]}
    return AlertMessage(
        target=target,
        rule=rule,
        kind=part.kind,
        severity=Severity(max(alert.severity for alert in [*new, *again, *over])),
        title=title,
        text=text,
        content=content,
        created_at=now,
        next_at=now,
    )


def _finish(rule: AlertRule, numbers: Iterable[int]) -> None:
    AlertNotice.objects.filter(rule=rule, alert__in=[*numbers]).update(over=True)


@dataclass(frozen=True)
class Batch:
    """One message to be made: the numbers of alerts of one condition."""

    kind: str
    new: list[int]
    again: list[int]
    over: list[int]

    def of(self, numbers: Container[int]) -> Batch:
        """The part of it that has these alerts."""
        parts = (self.new, self.again, self.over)
        return Batch(self.kind, *([pk for pk in part if pk in numbers] for part in parts))


def wants(rule: AlertRule, alert: Alert) -> bool:
    """Whether the rule is about this alert. A rule that names spiders, hosts or labels wants only
    alerts that concern one of each."""
    if alert.severity < rule.least_severity or (rule.kinds and alert.kind not in rule.kinds):
        return False
    threshold = rule.thresholds.get(alert.kind)
    if threshold is not None and alert.value is not None and alert.value < threshold:
        return False
    return (
        (not rule.spiders or not wording.spiders_of(alert).isdisjoint(rule.spiders))
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
    rule: AlertRule,
    alerts: Iterable[Alert],
    reported: Mapping[int, datetime],
    last: Mapping[str, datetime],
    now: datetime,
) -> list[Batch]:
    """The messages to be made now. ``alerts``: open alerts, and resolved alerts whose end was not
    reported by the rule. ``reported``: by alert, when the rule reported it last; ``last``: by
    condition, the time of its last message."""
    quiet = is_quiet(rule.quiet_from, rule.quiet_until, rule.timezone, now)
    by_kind: defaultdict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        passes = not quiet or (rule.severe_passes and alert.severity >= Severity.SEVERE)
        if passes and (alert.pk in reported or wants(rule, alert)):
            by_kind[alert.kind].append(alert)
    found = (
        _batch(rule, kind, some, reported, last.get(kind), now) for kind, some in by_kind.items()
    )
    return [batch for batch in found if batch is not None]


def _batch(
    rule: AlertRule,
    kind: str,
    alerts: list[Alert],
    reported: Mapping[int, datetime],
    last: datetime | None,
    now: datetime,
) -> Batch | None:
    waiting = [
        alert
        for alert in alerts
        if alert.resolved_at is None
        and alert.acknowledged_at is None
        and (alert.silenced_until is None or alert.silenced_until <= now)
    ]
    new = [alert for alert in waiting if alert.pk not in reported]
    repeat = timedelta(hours=rule.repeat_hours)
    again = [
        alert
        for alert in waiting
        if alert.pk in reported and repeat and now - reported[alert.pk] >= repeat
    ]
    over = [
        alert
        for alert in alerts
        if rule.reports_resolved and alert.resolved_at is not None and alert.pk in reported
    ]
    if not (new or again or over):
        return None
    if last is not None and now - last < timedelta(minutes=rule.group_minutes):
        return None  # they wait for the others
    first = min([*(a.opened_at for a in new), *(a.resolved_at or now for a in over)], default=None)
    if not again and first is not None and now - first < GATHER_SPAN:
        return None
    return Batch(kind, *([alert.pk for alert in part] for part in (new, again, over)))
