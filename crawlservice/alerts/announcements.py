"""Announcements: makes the messages that rules have to send, each once.

Messages, and the notices that they were made, are written in one transaction that has locked the
rule and its targets. So a leader that dies has written both or nothing, and of two leaders only one
writes. A target gets an alert once, however many of its rules report it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q

from crawlservice.alerts import wording
from crawlservice.alerts.rules import Batch, KnownAlert, decide
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
    _forget_disabled()
    return AlertMessage.objects.filter(SENDABLE, next_at__lte=now).exists()


@transaction.atomic
def _announce(number: int, now: datetime) -> None:
    rule = AlertRule.objects.select_for_update().filter(pk=number, enabled=True).first()
    if rule is None:
        return
    alerts = {alert.pk: alert for alert in Alert.objects.filter(OPEN)}
    chosen = AlertTarget.objects.filter(pk__in=rule.targets.filter(enabled=True).values("pk"))
    targets = list(chosen.select_for_update(no_key=True).order_by("pk"))  # two rules may share one
    if not targets:  # reported when there is one
        return
    for batch in _batches(rule, alerts, now):
        _write(rule, targets, batch, alerts, now)


def _batches(rule: AlertRule, alerts: dict[int, Alert], now: datetime) -> list[Batch]:
    """Adds to ``alerts`` those that are over and were not yet reported to be."""
    told = dict(
        AlertNotice.objects.filter(rule=rule, over=False).values_list("alert_id", "reported_at")
    )
    gone = told.keys() - alerts.keys()
    if gone:
        alerts.update(Alert.objects.exclude(OPEN).in_bulk([*gone]))
        if not rule.reports_resolved:
            _finish(rule, gone)
    known = [
        _known(alert, told.get(pk))
        for pk, alert in alerts.items()
        if alert.resolved_at is None or pk in told
    ]
    lately = now - timedelta(minutes=rule.group_minutes)
    last = AlertMessage.objects.filter(rule=rule, created_at__gt=lately).order_by().values("kind")
    return decide(rule, known, dict(last.values_list("kind", Max("created_at"))), now)


def _write(
    rule: AlertRule,
    targets: Iterable[AlertTarget],
    batch: Batch,
    alerts: Mapping[int, Alert],
    now: datetime,
) -> None:
    messages, reports = [], []
    for target in targets:
        part = _untold(rule, target, batch, now)
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
    """What of it no other rule has reported to this target."""
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


def _forget_disabled() -> None:
    """What a rule reported before it was disabled is not reported to be over when it is enabled
    again."""
    rows = AlertNotice.objects.filter(over=False, rule__enabled=False)
    if rows.exists():
        rows.filter(~Q(alert__resolved_at=None)).update(over=True)


def _known(alert: Alert, reported_at: datetime | None) -> KnownAlert:
    return KnownAlert(
        alert.pk,
        alert.kind,
        alert.severity,
        alert.opened_at,
        alert.value,
        alert.spider,
        alert.host,
        alert.labels if isinstance(alert.labels, dict) else {},
        alert.acknowledged_at is not None,
        alert.silenced_until,
        alert.resolved_at,
        reported_at,
    )
