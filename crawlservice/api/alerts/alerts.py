"""Alerts: list, show, acknowledge, silence; their messages."""

from __future__ import annotations

from datetime import datetime, time
from typing import Annotated, Any, Literal

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Body, Query, Router, Status
from pydantic import BaseModel, Field

from crawlframe.errors import ConfigError
from crawlservice.alerts import channels, dashboard_summary, outbox, rule_fields, state
from crawlservice.alerts.outbox import OUTBOX, send_again
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.alerts.state import LONGEST_SILENCE, UnknownAlert
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, newest_first
from crawlservice.api.parts.schemas import StrictInput
from crawlservice.connections import clock
from crawlservice.models import OPEN, Alert, AlertMessage, AlertRule, AlertTarget, Severity, Webhook

RULES = 1_000  # most rules, and targets, that are listed
SAME = (
    "name", "enabled", "group_minutes", "quiet_from", "quiet_until", "timezone", "severe_passes",
    "repeat_hours", "reports_resolved", "thresholds", "spiders", "hosts", "labels",
)  # fmt: skip
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
    value: float | None = Field(description="the value compared with thresholds")
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
    """A target. `shown` is its address without secrets."""

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
    """A rule. Omitted fields have their default."""

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
    resolved: Annotated[bool, Query(description="also ended alerts; else only open ones")] = False,
    condition: Annotated[str | None, Query(max_length=30, pattern=TEXT)] = None,
    after: After = None,
    limit: Limit = 100,
) -> AlertsOut:
    """Open alerts, the latest first."""
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
    """Acknowledges an alert: it is not reported again until it is over."""
    state.get_open(alert_id)
    state.acknowledge([alert_id], request.auth.who)
    return _show(alert_id)


@router.post("/alerts/{alert_id}/silence", auth=HANDLE, response={200: AlertOut, **WRITING})
def silence_alert(
    request: ApiRequest, alert_id: Id, body: Annotated[SilenceIn, Body()]
) -> AlertOut:
    """Silences an alert for some hours: it is not reported."""
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


def _may(verb: str, model: str) -> Bearer:
    return Bearer("read" if verb == "view" else "operate", f"{verb}_{model}")


@router.get("/alert-rules", auth=_may("view", "alertrule"), response={200: RulesOut, **READING})
def list_rules(request: ApiRequest) -> RulesOut:
    """All rules, by name."""
    rows = AlertRule.objects.prefetch_related("targets")[:RULES]
    return RulesOut(rules=[_rule(row) for row in rows])


@router.post("/alert-rules", auth=_may("add", "alertrule"), response={201: RuleOut, **WRITING})
def create_rule(request: ApiRequest, body: Annotated[RuleIn, Body()]) -> Status[RuleOut]:
    """Creates a rule."""
    row = _save(request, AlertRule(), body, "add_alertrule")
    return Status(201, _rule(row))


@router.put(
    "/alert-rules/{rule_id}", auth=_may("change", "alertrule"), response={200: RuleOut, **WRITING}
)
def change_rule(request: ApiRequest, rule_id: Id, body: Annotated[RuleIn, Body()]) -> RuleOut:
    """Replaces a rule: omitted fields get their default."""
    return _rule(_save(request, _get(AlertRule, rule_id, "rule"), body, "change_alertrule"))


@router.delete(
    "/alert-rules/{rule_id}", auth=_may("delete", "alertrule"), response={204: None, **WRITING}
)
def delete_rule(request: ApiRequest, rule_id: Id) -> Status[None]:
    """Deletes a rule. Messages that it made are sent anyway."""
    row = _get(AlertRule, rule_id, "rule")
    row.delete()
    request.auth.record("delete_alertrule", name=row.name, id=rule_id)
    return Status(204, None)


@router.get(
    "/alert-targets", auth=_may("view", "alerttarget"), response={200: TargetsOut, **READING}
)
def list_targets(request: ApiRequest) -> TargetsOut:
    """All targets, by name; their addresses are masked."""
    rows = AlertTarget.objects.select_related("webhook")[:RULES]
    return TargetsOut(targets=[_target(row) for row in rows])


@router.post(
    "/alert-targets", auth=_may("add", "alerttarget"), response={201: TargetOut, **WRITING}
)
def create_target(request: ApiRequest, body: Annotated[TargetIn, Body()]) -> Status[TargetOut]:
    """Creates a target. Its address is stored encrypted and never returned."""
    webhook = None
    if body.webhook is not None:
        webhook = Webhook.objects.filter(name=body.webhook).first()
        if webhook is None:
            raise ApiError(422, "invalid", f"there is no webhook {body.webhook}", "webhook")
    try:
        row = channels.new_target(body.name, body.kind, body.address, webhook)
    except ConfigError as error:  # packages are missing
        raise ApiError(422, "invalid", str(error), "address") from None
    request.auth.record("add_alerttarget", name=row.name, id=row.pk)
    return Status(201, _target(row))


@router.delete(
    "/alert-targets/{target_id}",
    auth=_may("delete", "alerttarget"),
    response={204: None, **WRITING},
)
def delete_target(request: ApiRequest, target_id: Id) -> Status[None]:
    """Deletes a target, with its messages."""
    row = _get(AlertTarget, target_id, "target")
    row.delete()
    request.auth.record("delete_alerttarget", name=row.name, id=target_id)
    return Status(204, None)


@router.post(
    "/alert-targets/{target_id}/test",
    auth=_may("change", "alerttarget"),
    response={200: TestOut, **WRITING},
)
def test_target(request: ApiRequest, target_id: Id) -> TestOut:
    """Sends a test message now, which may take half a minute."""
    row = _get(AlertTarget, target_id, "target")
    problem, reply = outbox.test(row)
    request.auth.record("test alert target", target=row.name, problem=problem)
    return TestOut(ok=not problem, problem=problem, reply=reply)


def _get(model: Any, number: int, what: str) -> Any:
    row = model.objects.filter(pk=number).first()
    if row is None:
        raise ApiError(404, f"unknown_{what}", f"there is no {what} {number}")
    return row


def _save(request: ApiRequest, row: AlertRule, body: RuleIn, verb: str) -> AlertRule:
    fields = {name: getattr(body, name) for name in SAME}
    try:
        fields = rule_fields.checked({**fields, "kinds": body.conditions})
    except BadRule as error:
        field = "conditions" if error.field == "kinds" else error.field
        raise ApiError(422, "invalid", str(error), field) from None
    targets = {target.name: target for target in AlertTarget.objects.filter(name__in=body.targets)}
    if missing := [name for name in body.targets if name not in targets]:
        raise ApiError(422, "invalid", f"there is no target {missing[0]}", "targets")
    if AlertRule.objects.filter(name=body.name).exclude(pk=row.pk).exists():
        raise ApiError(422, "invalid", f"there is a rule {body.name} already", "name")
    for name, value in fields.items():
        setattr(row, name, value)
    row.least_severity = Severity[body.least_severity.upper()]
    with transaction.atomic():
        row.save()
        row.targets.set(targets.values())
        request.auth.record(verb, name=row.name, id=row.pk)
    return row


def _rule(row: AlertRule) -> RuleOut:
    return RuleOut(
        id=row.pk,
        targets=sorted(target.name for target in row.targets.all()),
        conditions=row.kinds,
        least_severity=Severity(row.least_severity).name.lower(),  # type: ignore[arg-type]
        **{name: getattr(row, name) for name in SAME},
    )


def _target(row: AlertTarget) -> TargetOut:
    return TargetOut(
        id=row.pk,
        name=row.name,
        kind=row.kind,  # type: ignore[arg-type]
        shown=row.shown,
        webhook=row.webhook.name if row.webhook else None,
        enabled=row.enabled,
    )
