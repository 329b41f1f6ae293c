"""The outbox of alerts: which messages are due, and how they ended.

A message is claimed by recording the time of its next attempt before it is sent. So if its sender
dies, it is sent again, and if two senders see it, only one sends it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from datetime import timedelta
from uuid import uuid4

from django.conf import settings
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now
from django.utils import translation

from crawlframe.errors import CrawlframeError
from crawlservice.alerts.channels import Outgoing, outgoing, send
from crawlservice.connections.contained import failures, text_of
from crawlservice.models import AlertMessage, AlertTarget, Severity
from crawlservice.webhooks.deliveries import LAST_TRY, RETRY_PAUSES

log = logging.getLogger(__name__)

TEST = "test"  # the kind of a test message
UNSENT = {
    "waiting": Q(sent_at=None, next_at__isnull=False, problem=""),
    "retrying": Q(sent_at=None, next_at__isnull=False) & ~Q(problem=""),
    "failed": Q(sent_at=None, next_at=None),
}


def claim(busy: Collection[int], count: int) -> Iterator[Outgoing]:
    """What is due: at most one message of each target, except those that are ``busy``. Raises
    django.db.Error."""
    due = AlertMessage.objects.filter(target=OuterRef("pk"), next_at__lte=Now()).order_by("pk")
    targets = (
        AlertTarget.objects.filter(enabled=True)
        .exclude(pk__in=busy)
        .annotate(due=Subquery(due.values("pk")[:1]), when=Subquery(due.values("next_at")[:1]))
        .filter(due__isnull=False)
        .order_by("when")
    )
    for target in targets[:count]:
        rows = AlertMessage.objects.filter(pk=target.due, next_at__lte=Now())
        row = rows.first()
        if row is None:
            continue
        attempt = row.attempts + 1
        pause = RETRY_PAUSES[attempt - 1] if attempt <= len(RETRY_PAUSES) else LAST_TRY
        later = Now() + timedelta(seconds=pause)
        if not rows.filter(attempts=row.attempts).update(attempts=attempt, next_at=later):
            continue
        try:
            yield outgoing(
                target, key=str(row.key), title=row.title, text=row.text, content=row.content,
                severity=Severity(row.severity), number=row.pk, attempt=attempt,
            )  # fmt: skip
        except CrawlframeError as error:  # its address cannot be read, or its webhook is disabled
            settle(row.pk, attempt, str(error), "")
        except Exception as error:
            failures.add(f"alert message {row.pk}", error)
            settle(row.pk, attempt, text_of(error), "")


def settle(number: int, attempt: int, problem: str, reply: str) -> None:
    """Records the result of an attempt. ``problem``: why it did not arrive, or "". Raises
    django.db.Error."""
    rows = AlertMessage.objects.filter(pk=number)
    if not problem:
        rows.update(sent_at=Now(), next_at=None, problem="", reply=reply)
    elif attempt <= len(RETRY_PAUSES):
        rows.filter(sent_at=None).update(problem=problem, reply=reply)
    elif rows.filter(sent_at=None).update(problem=problem, reply=reply, next_at=None):
        log.warning("alert message %d is given up: %s", number, problem)


def word(message: AlertMessage) -> str:
    """How it stands, in one word: sent, failed, retrying or waiting."""
    if message.sent_at is not None:
        return "sent"
    if message.next_at is None:
        return "failed"
    return "retrying" if message.problem else "waiting"


def send_again(message: AlertMessage) -> None:
    """Sends it again as if it were new. Raises django.db.Error."""
    AlertMessage.objects.filter(pk=message.pk).update(
        attempts=0, next_at=Now(), sent_at=None, problem="", reply="", key=uuid4()
    )


def test(target: AlertTarget) -> tuple[str, str]:
    """Sends a test message now. Returns why it did not arrive, or "", and what the target answered.
    It is listed with the others. Raises django.db.Error."""
    with translation.override("en"):
        title = "[Crawlframe] test"
        text = f"This is a test of the alert target {target.name}. Nothing is wrong."
        if settings.PUBLIC_URL:
            text += f"\n  {settings.PUBLIC_URL}/admin/"
    content = {"condition": TEST, "severity": "notice"}
    row = AlertMessage.objects.create(
        target=target, kind=TEST, severity=Severity.NOTICE, title=title, text=text,
        content=content, attempts=1, next_at=None, problem="the test has not ended",
    )  # fmt: skip
    try:
        message = outgoing(
            target, key=str(row.key), title=title, text=text, content=content,
            severity=Severity.NOTICE, number=row.pk,
        )  # fmt: skip
        problem, reply = send(settings.CRAWLFRAME, message)
    except CrawlframeError as error:
        problem, reply = str(error), ""
    if problem:
        AlertMessage.objects.filter(pk=row.pk).update(problem=problem, reply=reply)
    else:
        settle(row.pk, 1, "", reply)
    return problem, reply
