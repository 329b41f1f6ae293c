"""Webhooks: which deliveries an event makes, and the message of each.

Events in the order of their numbers, each once, although transactions may be committed in
another order.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import orjson
from django.conf import settings
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Max, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from crawlservice.connections.contained import contained
from crawlservice.models import Delivery, Event, Schedule, Task, Webhook
from crawlservice.outbox.outbox import Outbox
from crawlservice.security.sealing import seal, unseal
from crawlservice.tasks import labels
from crawlservice.webhooks.address import Address, restored

GAP_TIMEOUT = timedelta(seconds=3)  # a number missing for so long does not come any more
EVENTS_PER_READ = 500
EVENTS_PER_ROUND = 500  # events at a time
SECRET_BYTES = 32


@dataclass(frozen=True)
class WebhookMessage:
    """One event for one address. ``id``: of the event."""

    address: Address = field(repr=False)
    secret: str = field(repr=False)
    id: str
    body: bytes


def create_deliveries() -> bool:
    """Makes the deliveries of new events, each once. Returns whether any is to be sent. Raises
    django.db.Error."""
    new = Event.objects.filter(delivered_at=None)
    if new.exists():
        _make_deliveries(new)
    return OUTBOX.due().exists()


def _make_deliveries(new: QuerySet[Event]) -> None:
    with transaction.atomic():
        webhooks = [*Webhook.objects.filter(enabled=True)]
        if not webhooks:
            new.update(delivered_at=Now())
            return
        events = list(
            new.values_list("pk", "kind", "outcome", Coalesce("task__spider", "schedule__spider"))[
                :EVENTS_PER_ROUND
            ]
        )
        made: list[Delivery] = []
        for webhook in webhooks:
            with contained(f"webhook {webhook.pk}"):
                made += [
                    Delivery(webhook=webhook, event_id=pk)
                    for pk, kind, outcome, spider in events
                    if is_wanted(webhook, _words(kind, outcome), spider)
                ]
        Delivery.objects.bulk_create(made, ignore_conflicts=True)
        new.filter(pk__in=[event[0] for event in events]).update(delivered_at=Now())


def _words(kind: str, outcome: str) -> set[str]:
    # The end of the task has an event of its own, with the same outcome.
    return {kind} if kind == Event.Kind.QUALITY_FAILED else {kind, outcome}


def is_wanted(webhook: Webhook, words: Collection[str], spider: str | None) -> bool:
    """``words``: kind and outcome of an event. A webhook may list either."""
    of_kind = not webhook.kinds or any(word in webhook.kinds for word in words)
    return webhook.spider in ("", spider) and of_kind


def new_secret() -> str:
    return "whsec_" + b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def give_secret(webhook: Webhook) -> str:
    """Sets a new secret, unsaved; returns it, to be shown once."""
    secret = new_secret()
    webhook.sealed_secret = seal(secret)
    return secret


def body(event: Event) -> bytes:
    told: dict[str, Any] = {
        "id": f"evt_{event.pk}",
        "kind": event.kind,
        "outcome": event.outcome or None,
        "reason": event.reason,
        "created_at": event.created_at,
        "task": event.task and _task(event.task),
    }
    if event.schedule:
        told["schedule"] = {**_schedule(event.schedule), **(event.detail or {})}
    if event.node:
        told["node"] = {"name": event.node, **(event.detail or {}), "link": _link("generation")}
    if event.host:
        link = f"{_link('host')}?q={quote(event.host)}"
        told["host"] = {"name": event.host, **(event.detail or {}), "link": link}
    if event.kind == Event.Kind.QUALITY_FAILED:
        told["quality"] = event.detail
    if event.kind in (Event.Kind.PAGES_FOUND, Event.Kind.PAGE_GONE):
        told["pages"] = event.detail
    return orjson.dumps(told)


def sample_message(webhook: Webhook) -> WebhookMessage:
    """A message without content, to test a webhook. Raises SealError."""
    name = f"evt_test_{secrets.token_hex(8)}"
    content = orjson.dumps({"id": name, "kind": "test", "created_at": None, "task": None})
    return WebhookMessage(*destination(webhook), name, content)


def _message(delivery: Delivery) -> WebhookMessage:
    event = delivery.event
    return WebhookMessage(*destination(delivery.webhook), f"evt_{event.pk}", body(event))


def destination(webhook: Webhook) -> tuple[Address, str]:
    """Address and secret. Raises SealError."""
    return restored(webhook.url, unseal(webhook.sealed_login)), unseal(webhook.sealed_secret)


def _task(task: Task) -> dict[str, Any]:
    return {
        "id": task.pk,
        "spider": task.spider,
        "arguments": task.shown_arguments,
        "state": task.state,
        "na": task.na,
        "nf": task.nf,
        "ne": task.ne,
        "cancelled": task.cancelled,
        "excluded": task.excluded,
        "items": task.items,
        "created_at": task.created_at,
        "finished_at": task.finished_at,
        "schedule": task.schedule_id,
        "labels": labels.of_task(task.pk),
        "link": _link("task", task.pk),
    }


def _schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.pk,
        "name": schedule.name,
        "spider": schedule.spider,
        "arguments": schedule.shown_arguments,
        "next_at": schedule.next_at,
        "link": _link("schedule", schedule.pk),
    }


def _link(model: str, pk: int | None = None) -> str:
    place = f"{pk}/change/" if pk else ""
    return f"{settings.PUBLIC_URL}/admin/crawlservice/{model}/{place}"


OUTBOX = Outbox(
    Delivery.objects.select_related("webhook", "event__task", "event__schedule").defer(
        "event__task__seeds"
    ),
    "webhook",
    "delivered_at",
    _message,
)


def newest() -> int:
    """The number of the latest event."""
    number: int = Event.objects.aggregate(pk=Max("pk"))["pk"] or 0
    return number


def after(last: int) -> list[Event]:
    """The next events after number ``last``, with their tasks and schedules.

    Events after a missing number wait for it a while: its transaction may still be open."""
    rows = Event.objects.filter(pk__gt=last).select_related("task", "schedule").order_by("pk")
    # By the clock of the database, which set their times.
    old = ExpressionWrapper(Q(created_at__lt=Now() - GAP_TIMEOUT), output_field=BooleanField())
    rows = rows.annotate(old=old).defer("task__seeds", "task__arguments", "task__settings")
    found: list[Event] = []
    for event in rows[:EVENTS_PER_READ]:
        if event.pk != last + 1 and not event.old:
            break
        found.append(event)
        last = event.pk
    return found
