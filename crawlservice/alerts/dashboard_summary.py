"""Needs: the open cases, alerts, errors and findings for the top of the dashboard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from crawlservice.alerts import state, wording
from crawlservice.alerts.condition import conditions
from crawlservice.cases.wording import owners_of, sentence_of
from crawlservice.connections import clock
from crawlservice.models import OPEN, Alert, Case, Schedule, Severity
from crawlservice.monitoring.ttl_cache import ttl_cache
from crawlservice.quality.wording import QUALITY

LOOKED_AT = 500  # open alerts
MAX_ALERTS = 5  # of one condition
MAX_CASES = 6  # open cases shown
MAX_SCHEDULES = 5  # next schedules shown
STALE_SPAN = timedelta(seconds=30)  # since the last look: from then on it says nothing of now
OUTCOMES = ("task_failed", "task_errors")  # conditions of how a task ended
OF_FAILED = {"errors", "items", "pages"}  # monitors that a run which failed fails as well
TONES = {Severity.SEVERE: "bad", Severity.WARNING: "warn", Severity.NOTICE: "muted"}


@dataclass(frozen=True)
class Need:
    """One open alert, as it is shown."""

    alert: Alert

    @property
    def sentence(self) -> str:
        return wording.sentence(self.alert)

    @property
    def place(self) -> str:
        """The path of the page of its cause."""
        return wording.place(self.alert)


@dataclass(frozen=True)
class NeedCase:
    """An open case, as it is shown."""

    case: Case
    sentence: str
    owners: str


@dataclass(frozen=True)
class AlertGroup:
    """The open alerts of one condition; ``listed`` are the first of ``count``."""

    kind: str
    severity: Severity
    count: int
    listed: list[Need]

    @property
    def title(self) -> str:
        return wording.title_of(self.kind)

    @property
    def tone(self) -> str:
        return TONES[self.severity]

    @property
    def more(self) -> int:
        return self.count - len(self.listed)


@dataclass(frozen=True)
class Needs:
    """``groups``: the most severe first. ``checked``: when the leading node looked last; None:
    never. ``stale``: that was too long ago to say anything of now. ``partial``: there are more
    alerts than were read. ``cases``: the latest open ones of ``all_cases``."""

    cases: list[NeedCase]
    all_cases: int
    groups: list[AlertGroup]
    acknowledged: int
    silenced: int
    checked: datetime | None
    stale: bool
    partial: bool
    upcoming: list[Schedule]

    @property
    def well(self) -> bool:
        """Whether nothing needs anybody, as far as is known."""
        return not self.cases and not self.groups and not self.stale and self.checked is not None


@ttl_cache(seconds=1)
def snapshot() -> Needs:
    """The needs of this moment. Raises django.db.Error."""
    now = clock.now()
    schedules = Schedule.objects.filter(enabled=True, next_at__isnull=False).order_by("next_at")
    rows = Alert.objects.filter(OPEN).exclude(kind="case")
    rows = rows.order_by("-severity", "since", "pk")
    alerts = [*rows[: LOOKED_AT + 1]]
    quiet = Q(silenced_until__gt=now)
    silenced = [alert for alert in alerts if alert.silenced_until and alert.silenced_until > now]
    acknowledged = Alert.objects.filter(OPEN, acknowledged_at__isnull=False).exclude(quiet).count()
    hidden = {alert.pk for alert in silenced}
    shown = [a for a in _distinct(alerts) if a.pk not in hidden and a.acknowledged_at is None]
    checked = state.checked_at()
    open_cases = Case.objects.filter(state=Case.State.OPEN).prefetch_related("spiders")
    cases = [*open_cases.order_by("-pk")[: MAX_CASES + 1]]
    return Needs(
        [NeedCase(one, sentence_of(one), ", ".join(owners_of(one))) for one in cases[:MAX_CASES]],
        len(cases) if len(cases) <= MAX_CASES else open_cases.count(),
        _groups(shown),
        acknowledged,
        len(silenced),
        checked,
        checked is not None and now - checked > STALE_SPAN,
        len(alerts) > LOOKED_AT,
        [*schedules[:MAX_SCHEDULES]],
    )


def _distinct(alerts: Sequence[Alert]) -> list[Alert]:
    """The alerts without the repeated ones. Of a task whose quality failed, the findings say more
    than the outcome; of one that failed by its errors, that says more than its missing items."""
    judged = {_fact(alert, "task") for alert in alerts if alert.kind == "quality"}
    by_quality = {a.pk: str(_fact(a, "reason")).startswith(QUALITY) for a in alerts}
    failed = {_fact(a, "task") for a in alerts if a.kind == "task_failed" and not by_quality[a.pk]}

    def repeats(alert: Alert) -> bool:
        task = _fact(alert, "task")
        if alert.kind == "quality":
            found = {one["monitor"] for one in _fact(alert, "found")}
            return task in failed and found <= OF_FAILED and not _fact(alert, "more")
        return alert.kind in OUTCOMES and by_quality[alert.pk] and task in judged

    return [alert for alert in alerts if not repeats(alert)]


def _fact(alert: Alert, name: str) -> Any:
    return alert.facts.get(name) if isinstance(alert.facts, dict) else None


def _groups(alerts: Iterable[Alert]) -> list[AlertGroup]:
    by_kind: defaultdict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_kind[alert.kind].append(alert)
    groups = [
        AlertGroup(
            kind,
            Severity(max(alert.severity for alert in some)),
            len(some),
            [Need(alert) for alert in some[:MAX_ALERTS]],
        )
        for kind, some in by_kind.items()
    ]
    order = {kind: number for number, kind in enumerate(conditions())}
    return sorted(groups, key=lambda group: (-group.severity, order.get(group.kind, len(order))))


def described(alert: Alert, now: datetime) -> dict[str, Any]:
    """An alert, for the API."""
    return {
        "id": alert.pk,
        "condition": alert.kind,
        "severity": Severity(alert.severity).name.lower(),
        "text": wording.sentence(alert),
        "link": wording.place(alert),
        "value": alert.value,
        "spider": alert.spider or None,
        "owners": wording.owners_of(alert),
        "host": alert.host or None,
        "labels": alert.labels,
        "since": alert.since,
        "found_at": alert.opened_at,
        "seen_at": alert.seen_at,
        "resolved_at": alert.resolved_at,
        "state": state.word(alert, now),
        "acknowledged_at": alert.acknowledged_at,
        "acknowledged_by": alert.acknowledged_by and alert.acknowledged_by.get_username(),
        "silenced_until": alert.silenced_until,
    }
