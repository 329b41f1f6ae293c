"""Alerts: list, show, acknowledge, silence; their messages."""

from __future__ import annotations

from datetime import datetime, time
from typing import Annotated, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Body, Query, Router
from pydantic import BaseModel, Field

from crawlservice.alerts import dashboard_summary, state
from crawlservice.alerts.outbox import OUTBOX, send_again
from crawlservice.alerts.state import LONGEST_SILENCE, UnknownAlert
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, newest_first
from crawlservice.api.parts.schemas import StrictInput
from crawlservice.connections import clock
from crawlservice.models import OPEN, Alert, AlertMessage, Severity

SeverityWord = Literal["notice", "warning", "severe"]
StateWord = Literal["open", "acknowledged", "silenced", "resolved"]
KindWord = Literal["mail", "service", "webhook"]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
Names = Annotated[list[Annotated[str, Field(max_length=300, pattern=TEXT)]], Field(max_length=200)]
Clock = Annotated[time, Field(strict=False)]  # JSON has no type for times
router = Router(tags=["alerts"])
READ = Bearer("read", "view_alert")
HANDLE = Bearer("operate", "handle_alert")
MESSAGES = Bearer("read", "view_alertmessage")
SEND = Bearer("operate", "change_alertrule")


class AlertOut(BaseModel):
    """A condition that was found. `link` is the path of the page of its cause."""

    id: int
    condition: str
    severity: SeverityWord
    text: str
    link: str
    value: float | None = Field(description="what thresholds are compared with")
    spider: str | None
    host: str | None
    labels: dict[str, str]
    since: datetime = Field(description="when the condition began")
    found_at: datetime
    seen_at: datetime
    resolved_at: datetime | None
    state: StateWord
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    silenced_until: datetime | None


class AlertsOut(BaseModel):
    alerts: list[AlertOut]
    next: int | None
    checked_at: datetime | None = Field(
        description="when the leading node looked last; null: none ever has"
    )


class SilenceIn(StrictInput):
    hours: Annotated[float, Field(gt=0, le=LONGEST_SILENCE)]


class TargetIn(StrictInput):
    name: Name
    kind: KindWord
    address: Annotated[str, Field(max_length=2000, pattern=TEXT)] = Field(
        "", description="mail addresses, or the URL of a service; empty for a webhook"
    )
    webhook: str | None = Field(None, description="the name of a webhook")


class TargetOut(BaseModel):
    """A target. `shown` is its address without what is secret in it."""

    id: int
    name: str
    kind: KindWord
    shown: str
    webhook: str | None
    enabled: bool


class TargetsOut(BaseModel):
    targets: list[TargetOut]


class TestOut(BaseModel):
    ok: bool
    problem: str = Field(description="why the message did not arrive; empty if it did")
    reply: str = Field(description="of the target")


class RuleIn(StrictInput):
    """A rule. What is left out has its usual value."""

    name: Name
    enabled: bool = True
    targets: Names = Field(default_factory=list, description="names of targets")
    conditions: Names = Field(default_factory=list, description="empty: all")
    thresholds: dict[str, float] = Field(
        default_factory=dict, description="by condition, instead of the usual ones"
    )
    least_severity: SeverityWord = "warning"
    spiders: Names = Field(default_factory=list)
    hosts: Names = Field(default_factory=list)
    labels: Names = Field(default_factory=list, description="such as team=red")
    group_minutes: Annotated[int, Field(ge=0, le=1440)] = 5
    quiet_from: Clock | None = None
    quiet_until: Clock | None = None
    timezone: Annotated[str, Field(max_length=64, pattern=TEXT)] = "UTC"
    severe_passes: bool = True
    repeat_hours: Annotated[int, Field(ge=0, le=720)] = Field(24, description="0: never")
    reports_resolved: bool = True


class RuleOut(BaseModel):
    id: int
    name: str
    enabled: bool
    targets: list[str]
    conditions: list[str]
    thresholds: dict[str, float]
    least_severity: SeverityWord
    spiders: list[str]
    hosts: list[str]
    labels: list[str]
    group_minutes: int
    quiet_from: time | None
    quiet_until: time | None
    timezone: str
    severe_passes: bool
    repeat_hours: int
    reports_resolved: bool


class RulesOut(BaseModel):
    rules: list[RuleOut]


class MessageOut(BaseModel):
    id: int
    target: str
    rule: str | None
    condition: str
    severity: SeverityWord
    title: str
    text: str
    state: Literal["waiting", "retrying", "sent", "failed"]
    attempts: int
    next_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    problem: str
    reply: str


class MessagesOut(BaseModel):
    messages: list[MessageOut]
    next: int | None


@router.get("/alerts", auth=READ, response={200: AlertsOut, **READING})
def list_alerts(
    request: HttpRequest,
    resolved: Annotated[
        bool, Query(description="also those that are over; else only open ones")
    ] = False,
    condition: Annotated[str | None, Query(max_length=30, pattern=TEXT)] = None,
    after: After = None,
    limit: Limit = 100,
) -> AlertsOut:
    """What needs somebody, the latest first."""
    rows: QuerySet[Alert] = Alert.objects.select_related("acknowledged_by")
    rows = rows if resolved else rows.filter(OPEN)
    rows = rows if condition is None else rows.filter(kind=condition)
    found, following = newest_first(rows, after, limit)
    now = clock.now()
    alerts = [AlertOut(**dashboard_summary.described(alert, now)) for alert in found]
    return AlertsOut(alerts=alerts, next=following, checked_at=state.checked_at())


@router.get("/alerts/{alert_id}", auth=READ, response={200: AlertOut, **READING})
def show_alert(request: HttpRequest, alert_id: Id) -> AlertOut:
    """One alert."""
    return _show(alert_id)


@router.post("/alerts/{alert_id}/acknowledge", auth=HANDLE, response={200: AlertOut, **WRITING})
def acknowledge_alert(request: ApiRequest, alert_id: Id) -> AlertOut:
    """Records that somebody looks after it: it is not reported again until it is over."""
    state.get_open(alert_id)
    state.acknowledge([alert_id], request.auth.who)
    return _show(alert_id)


@router.post("/alerts/{alert_id}/silence", auth=HANDLE, response={200: AlertOut, **WRITING})
def silence_alert(
    request: ApiRequest, alert_id: Id, body: Annotated[SilenceIn, Body()]
) -> AlertOut:
    """For some hours it is not reported."""
    state.get_open(alert_id)
    state.silence([alert_id], body.hours, clock.now(), request.auth.who)
    return _show(alert_id)


@router.post("/alerts/{alert_id}/reopen", auth=HANDLE, response={200: AlertOut, **WRITING})
def reopen_alert(request: ApiRequest, alert_id: Id) -> AlertOut:
    """Takes acknowledgement and silence back."""
    state.get_open(alert_id)
    state.withdraw([alert_id], request.auth.who)
    return _show(alert_id)


@router.get("/alert-messages", auth=MESSAGES, response={200: MessagesOut, **READING})
def list_messages(request: HttpRequest, after: After = None, limit: Limit = 100) -> MessagesOut:
    """Messages that were made, the latest first: sent, waiting and failed."""
    rows = AlertMessage.objects.select_related("target", "rule")
    found, following = newest_first(rows, after, limit)
    return MessagesOut(messages=[_message(row) for row in found], next=following)


@router.post(
    "/alert-messages/{message_id}/send-again", auth=SEND, response={200: MessageOut, **WRITING}
)
def send_message_again(request: ApiRequest, message_id: Id) -> MessageOut:
    """Sends it again as if it were new."""
    rows = AlertMessage.objects.select_related("target", "rule").filter(pk=message_id)
    row = rows.first()
    if row is None:
        raise UnknownAlert(f"there is no alert message {message_id}")
    send_again(row)
    request.auth.record("send again alert message", target=row.target.name, message=row.pk)
    row.refresh_from_db()
    return _message(row)


def _show(number: int) -> AlertOut:
    return AlertOut(**dashboard_summary.described(state.get(number), clock.now()))


def _message(row: AlertMessage) -> MessageOut:
    return MessageOut(
        id=row.pk,
        target=row.target.name,
        rule=row.rule.name if row.rule else None,
        condition=row.kind,
        severity=Severity(row.severity).name.lower(),  # type: ignore[arg-type]
        title=row.title,
        text=row.text,
        state=OUTBOX.state(row),  # type: ignore[arg-type]
        attempts=row.attempts,
        next_at=row.next_at,
        created_at=row.created_at,
        sent_at=row.sent_at,
        problem=row.problem,
        reply=row.reply,
    )
