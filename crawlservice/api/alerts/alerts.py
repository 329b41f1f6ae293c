"""Alerts: list, show, acknowledge, silence; their messages."""

from __future__ import annotations

from typing import Annotated

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Body, Query, Router

from crawlservice.alerts import dashboard_summary, state
from crawlservice.alerts.outbox import OUTBOX, send_again
from crawlservice.alerts.state import UnknownAlert
from crawlservice.api.alerts.schemas import (
    AlertOut,
    AlertsOut,
    MessageOut,
    MessagesOut,
    SilenceIn,
)
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING
from crawlservice.api.parts.paging import TEXT, After, Id, Limit, newest_first
from crawlservice.connections import clock
from crawlservice.models import OPEN, Alert, AlertMessage, Severity

router = Router(tags=["alerts"])

READ = Bearer("read", "view_alert")
HANDLE = Bearer("operate", "handle_alert")
MESSAGES = Bearer("read", "view_alertmessage")
SEND = Bearer("operate", "change_alertrule")


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
