"""Alerts: list, show, acknowledge, silence; their messages."""

from __future__ import annotations

from datetime import datetime, time
from typing import Annotated, Any, Literal

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Status
from pydantic import BeforeValidator, Field

from crawlframe.errors import ConfigError
from crawlservice.alerts import channels, dashboard_summary, outbox, rule_fields, state
from crawlservice.alerts.outbox import OUTBOX, send_again
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.alerts.state import LONGEST_SILENCE
from crawlservice.api.parts.auth import ApiRequest, Bearer, rights_on
from crawlservice.api.parts.errors import Operations, invalid
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, list_of, newest_first, page_of
from crawlservice.api.parts.schemas import Named, NameOf, Output, StrictInput
from crawlservice.connections import clock
from crawlservice.connections.lookup import NotFound, find
from crawlservice.models import OPEN, Alert, AlertMessage, AlertRule, AlertTarget, Severity, Webhook

RULES = 1_000  # most rules, and targets, that are listed
SeverityWord = Literal["notice", "warning", "severe"]
SeverityOut = Annotated[SeverityWord, BeforeValidator(lambda number: Severity(number).name.lower())]
StateWord = Literal["open", "acknowledged", "silenced", "resolved"]
KindWord = Literal["mail", "service", "webhook"]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
Names = Annotated[list[Annotated[str, Field(max_length=300, pattern=TEXT)]], Field(max_length=200)]
Clock = Annotated[time, Field(strict=False)]  # JSON has no type for times
CheckedAt = Annotated[
    datetime | None, Field(description="when the leading node looked last; null: none ever has")
]
router = Operations(tags=["alerts"])
READ = Bearer("read", "view_alert")
HANDLE = Bearer("operate", "handle_alert")
MESSAGES = Bearer("read", "view_alertmessage")
VIEW_RULE, ADD_RULE, CHANGE_RULE, DELETE_RULE = rights_on("alertrule")
VIEW_TARGET, ADD_TARGET, CHANGE_TARGET, DELETE_TARGET = rights_on("alerttarget")


class AlertOut(Output):
    """A condition that was found. `link` is the path of the page of its cause."""

    id: int
    condition: str
    severity: SeverityWord
    text: str
    link: str
    value: float | None = Field(description="the value compared with thresholds")
    spider: str | None
    owners: list[str] = Field(description="of the spider")
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


class SilenceIn(StrictInput):
    hours: Annotated[float, Field(gt=0, le=LONGEST_SILENCE)]


class TargetIn(StrictInput):
    name: Name
    kind: KindWord
    address: Annotated[str, Field(max_length=2000, pattern=TEXT)] = Field(
        "", description="mail addresses, or the URL of a service; empty for a webhook"
    )
    webhook: str | None = Field(None, description="the name of a webhook")


class TargetOut(Output):
    """A target. `shown` is its address without secrets."""

    id: int
    name: str
    kind: KindWord
    shown: str
    webhook: Named
    enabled: bool


class TestOut(Output):
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


class RuleOut(Output):
    id: int
    name: str
    enabled: bool
    targets: list[NameOf]
    conditions: list[str] = Field(validation_alias="kinds")
    thresholds: dict[str, float]
    least_severity: SeverityOut
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


class MessageOut(Output):
    id: int
    target: NameOf
    rule: Named
    condition: str = Field(validation_alias="kind")
    severity: SeverityOut
    title: str
    text: str
    state: Literal["waiting", "retrying", "sent", "failed"]
    attempts: int
    next_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    problem: str
    reply: str

    @staticmethod
    def resolve_state(row: AlertMessage) -> str:
        return OUTBOX.state(row)


@router.get("/alerts", auth=READ, response=page_of("alerts", AlertOut, checked_at=CheckedAt))
def list_alerts(
    request: HttpRequest,
    resolved: Annotated[bool, Query(description="also ended alerts; else only open ones")] = False,
    condition: Annotated[str | None, Query(max_length=30, pattern=TEXT)] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Open alerts, the latest first."""
    rows: QuerySet[Alert] = Alert.objects.select_related("acknowledged_by")
    rows = rows if resolved else rows.filter(OPEN)
    rows = rows if condition is None else rows.filter(kind=condition)
    page = newest_first("alerts", rows, after, limit, lambda some: [*map(_alert, some)])
    return page | {"checked_at": state.checked_at()}


@router.get("/alerts/{alert_id}", auth=READ, response=AlertOut)
def show_alert(request: HttpRequest, alert_id: Id) -> dict[str, Any]:
    """One alert."""
    return _alert(state.get(alert_id))


@router.post("/alerts/{alert_id}/acknowledge", auth=HANDLE, response=AlertOut)
def acknowledge_alert(request: ApiRequest, alert_id: Id) -> dict[str, Any]:
    """Acknowledges an alert: it is not reported again until it is over."""
    state.get_open(alert_id)
    state.acknowledge([alert_id], request.auth.who)
    return _alert(state.get(alert_id))


@router.post("/alerts/{alert_id}/silence", auth=HANDLE, response=AlertOut)
def silence_alert(request: ApiRequest, alert_id: Id, body: SilenceIn) -> dict[str, Any]:
    """Silences an alert for some hours: it is not reported."""
    state.get_open(alert_id)
    state.silence([alert_id], body.hours, clock.now(), request.auth.who)
    return _alert(state.get(alert_id))


@router.post("/alerts/{alert_id}/reopen", auth=HANDLE, response=AlertOut)
def reopen_alert(request: ApiRequest, alert_id: Id) -> dict[str, Any]:
    """Takes acknowledgement and silence back."""
    state.get_open(alert_id)
    state.withdraw([alert_id], request.auth.who)
    return _alert(state.get(alert_id))


def _alert(alert: Alert) -> dict[str, Any]:
    return dashboard_summary.described(alert, clock.now())


@router.get("/alert-messages", auth=MESSAGES, response=page_of("messages", MessageOut))
def list_messages(request: HttpRequest, after: After = None, limit: Limit = 100) -> dict[str, Any]:
    """Messages that were made, the latest first: sent, waiting and failed."""
    rows = AlertMessage.objects.select_related("target", "rule")
    return newest_first("messages", rows, after, limit)


@router.post("/alert-messages/{message_id}/send-again", auth=CHANGE_RULE, response=MessageOut)
def send_message_again(request: ApiRequest, message_id: Id) -> AlertMessage:
    """Sends it again as if it were new."""
    rows = AlertMessage.objects.select_related("target", "rule")
    if (row := rows.filter(pk=message_id).first()) is None:
        raise NotFound("alert", f"there is no alert message {message_id}")
    send_again(row)
    request.auth.record("send again alert message", target=row.target.name, message=row.pk)
    row.refresh_from_db()
    return row


@router.get("/alert-rules", auth=VIEW_RULE, response=list_of("rules", RuleOut))
def list_rules(request: ApiRequest) -> dict[str, Any]:
    """All rules, by name."""
    return {"rules": AlertRule.objects.prefetch_related("targets")[:RULES]}


@router.post("/alert-rules", auth=ADD_RULE, response={201: RuleOut})
def create_rule(request: ApiRequest, body: RuleIn) -> Status[AlertRule]:
    """Creates a rule."""
    return Status(201, _save(request, AlertRule(), body, "add_alertrule"))


@router.put("/alert-rules/{rule_id}", auth=CHANGE_RULE, response=RuleOut)
def change_rule(request: ApiRequest, rule_id: Id, body: RuleIn) -> AlertRule:
    """Replaces a rule: omitted fields get their default."""
    return _save(request, find(AlertRule.objects.all(), "rule", rule_id), body, "change_alertrule")


@router.delete("/alert-rules/{rule_id}", auth=DELETE_RULE, response={204: None})
def delete_rule(request: ApiRequest, rule_id: Id) -> Status[None]:
    """Deletes a rule. Messages that it made are sent anyway."""
    row = find(AlertRule.objects.all(), "rule", rule_id)
    row.delete()
    request.auth.record("delete_alertrule", name=row.name, id=rule_id)
    return Status(204, None)


@router.get("/alert-targets", auth=VIEW_TARGET, response=list_of("targets", TargetOut))
def list_targets(request: ApiRequest) -> dict[str, Any]:
    """All targets, by name; their addresses are masked."""
    return {"targets": AlertTarget.objects.select_related("webhook")[:RULES]}


@router.post("/alert-targets", auth=ADD_TARGET, response={201: TargetOut})
def create_target(request: ApiRequest, body: TargetIn) -> Status[AlertTarget]:
    """Creates a target. Its address is stored encrypted and never returned."""
    webhook = None
    if body.webhook is not None:
        webhook = Webhook.objects.filter(name=body.webhook).first()
        if webhook is None:
            raise invalid("webhook", f"there is no webhook {body.webhook}")
    try:
        row = channels.new_target(body.name, body.kind, body.address, webhook)
    except ConfigError as error:  # packages are missing
        raise invalid("address", error) from None
    request.auth.record("add_alerttarget", name=row.name, id=row.pk)
    return Status(201, row)


@router.delete("/alert-targets/{target_id}", auth=DELETE_TARGET, response={204: None})
def delete_target(request: ApiRequest, target_id: Id) -> Status[None]:
    """Deletes a target, with its messages."""
    row = find(AlertTarget.objects.all(), "target", target_id)
    row.delete()
    request.auth.record("delete_alerttarget", name=row.name, id=target_id)
    return Status(204, None)


@router.post("/alert-targets/{target_id}/test", auth=CHANGE_TARGET, response=TestOut)
def test_target(request: ApiRequest, target_id: Id) -> TestOut:
    """Sends a test message now, which may take half a minute."""
    row = find(AlertTarget.objects.all(), "target", target_id)
    problem, reply = outbox.test(row)
    request.auth.record("test alert target", target=row.name, problem=problem)
    return TestOut(ok=not problem, problem=problem, reply=reply)


def _save(request: ApiRequest, row: AlertRule, body: RuleIn, verb: str) -> AlertRule:
    fields = body.model_dump(exclude={"targets", "conditions", "least_severity"})
    try:
        fields = rule_fields.checked({**fields, "kinds": body.conditions})
    except BadRule as error:
        raise invalid("conditions" if error.field == "kinds" else error.field, error) from None
    targets = {target.name: target for target in AlertTarget.objects.filter(name__in=body.targets)}
    if missing := [name for name in body.targets if name not in targets]:
        raise invalid("targets", f"there is no target {missing[0]}")
    if AlertRule.objects.filter(name=body.name).exclude(pk=row.pk).exists():
        raise invalid("name", f"there is a rule {body.name} already")
    for name, value in fields.items():
        setattr(row, name, value)
    row.least_severity = Severity[body.least_severity.upper()]
    with transaction.atomic():
        row.save()
        row.targets.set(targets.values())
        request.auth.record(verb, name=row.name, id=row.pk)
    return row
