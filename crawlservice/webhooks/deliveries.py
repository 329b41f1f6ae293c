"""Webhooks: which deliveries an event makes, which of them are due, and how they ended.

A delivery is claimed by recording the time of its next attempt before it is sent. So if its sender
dies, it is sent again, and if two senders see it, only one sends it."""

from __future__ import annotations

import logging
import secrets
from base64 import b64encode
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import orjson
from django.conf import settings
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now

from crawlservice.connections.contained import contained, failures, text_of
from crawlservice.models import Delivery, Event, Schedule, Task, Webhook
from crawlservice.security.sealing import SealError, seal, unseal
from crawlservice.tasks import labels
from crawlservice.webhooks.address import Address, parsed, restored

log = logging.getLogger(__name__)

# Seconds from the first, second, … failed attempt to the next; then it is given up. A day in all.
RETRY_PAUSES = (30, 120, 600, 3600, 10800, 21600, 43200)
LAST_TRY = 60  # seconds after which a last attempt is repeated if its sender died
EVENTS_PER_ROUND = 500  # events at a time
SECRET_BYTES = 32


@dataclass(frozen=True)
class WebhookMessage:
    """One attempt of one delivery. ``id`` is that of the event."""

    address: Address = field(repr=False)
    secret: str = field(repr=False)
    id: str
    body: bytes
    delivery: int = 0
    attempt: int = 1


def create_deliveries() -> bool:
    """Makes the deliveries of new events, each once. Returns whether any is to be sent. Raises
    django.db.Error."""
    new = Event.objects.filter(delivered_at=None)
    if new.exists():
        _make_deliveries(new)
    return Delivery.objects.filter(next_at__lte=Now(), webhook__enabled=True).exists()


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


def claim(busy: Collection[int], count: int) -> Iterator[tuple[int, WebhookMessage]]:
    """What is due: at most one delivery of each webhook, except those that are ``busy``. Yields
    webhooks and messages. Raises django.db.Error."""
    due = Delivery.objects.filter(webhook=OuterRef("pk"), next_at__lte=Now()).order_by("next_at")
    webhooks = (
        Webhook.objects.filter(enabled=True)
        .exclude(pk__in=busy)
        .annotate(due=Subquery(due.values("pk")[:1]), since=Subquery(due.values("next_at")[:1]))
        .filter(due__isnull=False)
        .order_by("since")
    )
    for webhook in webhooks[:count]:
        rows = Delivery.objects.filter(pk=webhook.due, next_at__lte=Now())
        delivery = (
            rows.select_related("event__task", "event__schedule")
            .defer("event__task__seeds")
            .first()
        )
        if delivery is None:
            continue
        attempt = delivery.attempts + 1
        pause = RETRY_PAUSES[attempt - 1] if attempt <= len(RETRY_PAUSES) else LAST_TRY
        later = Now() + timedelta(seconds=pause)
        if not rows.filter(attempts=delivery.attempts).update(attempts=attempt, next_at=later):
            continue
        try:
            message = _message(webhook, delivery, attempt)
        except Exception as error:
            if not isinstance(error, SealError):
                failures.add(f"delivery {delivery.pk}", error)
            log.warning("webhook %s: %s", webhook, error)
            name = f"evt_{delivery.event_id}"
            settle(
                WebhookMessage(parsed(webhook.url), "", name, b"", delivery.pk, attempt),
                str(error) if isinstance(error, SealError) else text_of(error),
            )
            continue
        yield webhook.pk, message


def settle(message: WebhookMessage, problem: str) -> None:
    """Records the result. ``problem``: why it did not arrive, or "". Raises django.db.Error."""
    rows = Delivery.objects.filter(pk=message.delivery)
    if not problem:
        rows.update(delivered_at=Now(), next_at=None, problem="")
    elif message.attempt <= len(RETRY_PAUSES):
        rows.filter(delivered_at=None).update(problem=problem)
    elif rows.filter(delivered_at=None).update(problem=problem, next_at=None):
        log.warning("%s to %s is given up: %s", message.id, message.address.shown, problem)


def send_again(delivery: Delivery) -> None:
    """Sends it again as if it were new. Raises django.db.Error."""
    Delivery.objects.filter(pk=delivery.pk).update(
        attempts=0, next_at=Now(), delivered_at=None, problem=""
    )


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


def _message(webhook: Webhook, delivery: Delivery, attempt: int) -> WebhookMessage:
    event = delivery.event
    name = f"evt_{event.pk}"
    return WebhookMessage(*destination(webhook), name, body(event), delivery.pk, attempt)


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
