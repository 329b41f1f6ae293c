"""Announcements: makes the messages that rules have to send, each once.

Messages, and the notices that they were made, are written in one transaction that has locked the
rule. So a leader that dies has written both or nothing, and of two leaders only one writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q

from crawlservice.alerts import wording
from crawlservice.alerts.rules import Batch, Known, decide
from crawlservice.models import (
    OPEN,
    Alert,
    AlertMessage,
    AlertNotice,
    AlertRule,
    AlertTarget,
    Severity,
)

SENDABLE = Q(next_at__isnull=False, target__enabled=True)


def announce(now: datetime) -> bool:
    """Makes the messages that are due now. Returns whether one is to be sent. Raises
    django.db.Error."""
    rules = list(AlertRule.objects.filter(enabled=True))
    if rules:
        alerts = {alert.pk: alert for alert in Alert.objects.filter(OPEN)}
        for rule in rules:
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
    targets = list(rule.targets.filter(enabled=True))
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
    new, again, over = (
        [alerts[pk] for pk in part] for part in (batch.new, batch.again, batch.over)
    )
    title, text, content = wording.message(batch.kind, new, again, over)
    content |= {"rule": rule.name, "numbers": [*batch.new, *batch.again, *batch.over]}
    severity = Severity(max(alert.severity for alert in [*new, *again, *over]))
    AlertMessage.objects.bulk_create([
        AlertMessage(
            target=target, rule=rule, kind=batch.kind, severity=severity, title=title,
            text=text, content=content, created_at=now, next_at=now,
        )
        for target in targets
    ])  # fmt: skip
    AlertNotice.objects.bulk_create(
        [AlertNotice(rule=rule, alert=alert, reported_at=now) for alert in new],
        ignore_conflicts=True,
    )
    AlertNotice.objects.filter(rule=rule, alert__in=again).update(reported_at=now)
    _finish(rule, batch.over)


def _finish(rule: AlertRule, numbers: Iterable[int]) -> None:
    AlertNotice.objects.filter(rule=rule, alert__in=[*numbers]).update(over=True)


def _forget_disabled() -> None:
    """What a rule reported before it was disabled is not reported to be over when it is enabled
    again."""
    rows = AlertNotice.objects.filter(over=False, rule__enabled=False)
    if rows.exists():
        rows.filter(~Q(alert__resolved_at=None)).update(over=True)


def _known(alert: Alert, reported_at: datetime | None) -> Known:
    return Known(
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
