"""State: opens, renews and ends alerts, and records the decisions of people about them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import record as journal
from crawlservice.alerts.condition import MAX_SUBJECTS, Alarm, ServiceView, Unknown, conditions
from crawlservice.connections.contained import contained
from crawlservice.connections.lookup import find as find_row
from crawlservice.models import HOST, OPEN, SPIDER, Alert, Installation, Label
from crawlservice.models.alert import SUBJECT

log = logging.getLogger(__name__)
Found = dict[str, list[Alarm | Unknown]]
SEEN_SPAN = timedelta(minutes=1)  # between two updates of when an open alert was last seen
LONGEST_SILENCE = 30 * 24  # hours


class AlertResolved(CrawlframeError):
    """The alert is over, so nothing can be decided about it."""


def record(
    found: Mapping[str, Iterable[Alarm | Unknown]], least: Mapping[str, float], now: datetime
) -> None:
    """Opens new alerts, renews lasting ones, and resolves alerts of the conditions in ``found``
    that are over. A value opens an alert only from ``least`` on. In any process; two at once open
    an alert once. Raises django.db.Error."""
    open_ = {(a.kind, a.subject): a for a in Alert.objects.filter(OPEN, kind__in=[*found])}
    new: list[Alarm] = []
    changed: list[tuple[Alert, Alarm]] = []
    there: set[tuple[str, str]] = set()
    unknown: set[tuple[str, str | None]] = set()
    for kind, findings in found.items():
        for finding in findings:
            if isinstance(finding, Unknown):
                unknown.add((kind, finding.subject))
                continue
            key = kind, finding.subject[:SUBJECT]
            alert = open_.get(key)
            if key in there:
                continue
            there.add(key)
            if alert is not None:
                if _renew(alert, finding):
                    changed.append((alert, finding))
            elif finding.value is None or finding.value >= least.get(kind, finding.value):
                new.append(finding)
    labels = _labels([*new, *(finding for _alert, finding in changed)])
    for alert, finding in changed:  # it may be of another task now
        alert.labels = labels.get(finding.task or 0, {})
    Alert.objects.bulk_update(
        [alert for alert, _finding in changed],
        ["facts", "value", "severity", "labels", "acknowledged_at"],
    )
    gone = [
        alert.pk
        for key, alert in open_.items()
        if key not in there and unknown.isdisjoint({key, (alert.kind, None)})
    ]
    if gone:
        Alert.objects.filter(OPEN, pk__in=gone).update(resolved_at=now)
    if new:
        Alert.objects.bulk_create(
            [_alert(finding, labels, now) for finding in new], ignore_conflicts=True
        )
    stale = [alert.pk for key, alert in open_.items() if alert.seen_at <= now - SEEN_SPAN and
             key in there]  # fmt: skip
    if stale:
        Alert.objects.filter(pk__in=stale).update(seen_at=now)


def mark_checked(now: datetime) -> None:
    """Records that a leader has looked. Raises django.db.Error."""
    Installation.objects.filter(pk=1).update(checked_at=now)


def checked_at() -> datetime | None:
    """When a leader last looked; None: none ever has. Raises django.db.Error."""
    return Installation.objects.filter(pk=1).values_list("checked_at", flat=True).first()


def _renew(alert: Alert, finding: Alarm) -> bool:
    """Whether anything has changed."""
    severity = finding.severity or conditions()[finding.kind].severity
    handled = alert.acknowledged_at or finding.acknowledged_at
    values = dict(finding.facts), finding.value, int(severity), handled
    if (alert.facts, alert.value, alert.severity, alert.acknowledged_at) == values:
        return False
    alert.facts, alert.value, alert.severity, alert.acknowledged_at = values
    return True


def _alert(finding: Alarm, labels: Mapping[int, dict[str, str]], now: datetime) -> Alert:
    return Alert(
        kind=finding.kind,
        subject=finding.subject[:SUBJECT],
        severity=finding.severity or conditions()[finding.kind].severity,
        facts=dict(finding.facts),
        value=finding.value,
        spider=finding.spider[:SPIDER],
        host=finding.host[:HOST],
        labels=labels.get(finding.task or 0, {}),
        since=finding.since,
        acknowledged_at=finding.acknowledged_at,
        opened_at=now,
        seen_at=now,
    )


def _labels(findings: Iterable[Alarm]) -> dict[int, dict[str, str]]:
    tasks = [finding.task for finding in findings if finding.task is not None]
    if not tasks:
        return {}
    found: dict[int, dict[str, str]] = {}
    for task, name, value in Label.objects.filter(task__in=tasks).values_list(
        "task", "name", "value"
    ):
        found.setdefault(task, {})[name] = value
    return found


def get(number: int) -> Alert:
    """Raises NotFound and django.db.Error."""
    return find_row(Alert.objects.select_related("acknowledged_by"), "alert", number)


def get_open(number: int) -> Alert:
    """Raises NotFound, AlertResolved and django.db.Error."""
    alert = get(number)
    if alert.resolved_at is not None:
        raise AlertResolved(f"alert {number} is resolved")
    return alert


def acknowledge(numbers: Collection[int], who: Mapping[str, Any]) -> int:
    """Records that a person takes care of these open alerts, which are then not reported again.
    ``who``: as for the journal. Returns the number of newly acknowledged alerts. Raises
    django.db.Error."""
    user = who.get("user")
    rows = _open(numbers).filter(acknowledged_at=None)
    by = user.pk if user is not None and user.is_authenticated else None
    return _decide(
        "acknowledge alert", rows, {"acknowledged_at": Now(), "acknowledged_by_id": by}, who
    )


def withdraw(numbers: Collection[int], who: Mapping[str, Any]) -> int:
    """Takes acknowledgement and silence back. Returns of how many. Raises django.db.Error."""
    rows = _open(numbers).exclude(acknowledged_at=None, silenced_until=None)
    fields = {"acknowledged_at": None, "acknowledged_by_id": None, "silenced_until": None}
    return _decide("reopen alert", rows, fields, who)


def silence(numbers: Collection[int], hours: float, now: datetime, who: Mapping[str, Any]) -> int:
    """Silences open alerts for this many hours: they are not reported, and "What needs me" leaves
    them out. Returns how many. Raises django.db.Error."""
    until = now + timedelta(hours=hours)
    return _decide(
        "silence alert", _open(numbers), {"silenced_until": until}, who, until=until.isoformat()
    )


def _open(numbers: Collection[int]) -> QuerySet[Alert]:
    return Alert.objects.filter(OPEN, pk__in=numbers)


@transaction.atomic
def _decide(
    verb: str, rows: QuerySet[Alert], fields: Mapping[str, Any], who: Mapping[str, Any],
    **detail: Any,
) -> int:  # fmt: skip
    found: Sequence[Alert] = list(rows.select_for_update(of=("self",)))
    Alert.objects.filter(pk__in=[alert.pk for alert in found]).update(**fields)
    for alert in found:
        told = {"alert": alert.pk, "kind": alert.kind, "subject": alert.subject, **detail}
        journal(verb, **who, **told)
    return len(found)


def word(alert: Alert, now: datetime) -> str:
    """Its state in one word: resolved, silenced, acknowledged or open."""
    if alert.resolved_at is not None:
        return "resolved"
    if alert.silenced_until is not None and alert.silenced_until > now:
        return "silenced"
    return "acknowledged" if alert.acknowledged_at is not None else "open"


def find(view: ServiceView, *, by_web: bool = False, absent: Collection[str] = ()) -> Found:
    """Present subjects by condition, of the conditions that the leader finds, or the web;
    MAX_SUBJECTS of each, and Unknown if there are more. A condition that fails, as without Redis,
    is missing: its state is unknown. Conditions that only the web finds are absent, because a
    leader asks; so are conditions in ``absent``. Raises django.db.Error."""
    found: Found = {}
    for name, condition in conditions().items():
        if not (condition.by_web if by_web else condition.by_leader) or name in absent:
            if not by_web:
                found[name] = []
            continue
        try:
            with contained(f"the condition {name}"):
                some = [*islice(condition.find(view), MAX_SUBJECTS + 1)]
                more = len(some) > MAX_SUBJECTS
                found[name] = [*some[:MAX_SUBJECTS], Unknown()] if more else some
        except (RedisError, CrawlframeError) as error:
            log.warning("whether there is %s is unknown: %s", name, error)
    return found
