"""Rules and targets of alerts: list, create, change, delete, test."""

from __future__ import annotations

from typing import Annotated, Any

from django.db import transaction
from ninja import Body, Router, Status

from crawlframe.errors import ConfigError
from crawlservice.alerts import outbox, rule_fields
from crawlservice.alerts.kinds import BadRule
from crawlservice.api.alerts.alerts import (
    RuleIn,
    RuleOut,
    RulesOut,
    TargetIn,
    TargetOut,
    TargetsOut,
    TestOut,
)
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import Id
from crawlservice.models import AlertRule, AlertTarget, Severity, Webhook

router = Router(tags=["alerts"])

RULES = 1_000  # most rules, and targets, that are listed
SAME = (
    "name", "enabled", "group_minutes", "quiet_from", "quiet_until", "timezone", "severe_passes",
    "repeat_hours", "reports_resolved", "thresholds", "spiders", "hosts", "labels",
)  # fmt: skip


def _may(verb: str, model: str) -> Bearer:
    return Bearer("read" if verb == "view" else "operate", f"{verb}_{model}")


# -- rules -----------------------------------------------------------------------------------------


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
    """Replaces a rule: what is left out gets its usual value."""
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


# -- targets ---------------------------------------------------------------------------------------


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
        row = rule_fields.new_target(body.name, body.kind, body.address, webhook)
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
