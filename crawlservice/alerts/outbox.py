"""The outbox of alerts: messages on their way to targets."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.utils import translation

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlservice.alerts.channels import Outgoing, outgoing, send
from crawlservice.models import AlertMessage, AlertTarget, Severity
from crawlservice.outbox.outbox import Claim, Outbox
from crawlservice.outbox.sender import Sender

TEST = "test"  # the kind of a test message


def _message(row: AlertMessage) -> Outgoing:
    """Raises SealError, and ConfigError if the webhook of its target is disabled or gone."""
    return outgoing(
        row.target, key=str(row.key), title=row.title, text=row.text, content=row.content,
        severity=Severity(row.severity),
    )  # fmt: skip


OUTBOX = Outbox(AlertMessage.objects.select_related("target"), "target", "sent_at", _message)


def send_again(message: AlertMessage) -> None:
    """Sends a message again as if it were new, with another key: its receiver may know the last
    key. Raises django.db.Error."""
    OUTBOX.send_again(message, reply="", key=uuid4())


def test(target: AlertTarget) -> tuple[str, str]:
    """Sends a test message now, which is listed with the others. Returns why it did not arrive, or
    "", and the target's answer. Raises django.db.Error."""
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
        problem, reply = send(settings.CRAWLFRAME, _message(row))
    except CrawlframeError as error:
        problem, reply = str(error), ""
    if problem:
        AlertMessage.objects.filter(pk=row.pk).update(problem=problem, reply=reply)
    else:
        OUTBOX.settle(Claim(row.pk, target.pk, 1), "", reply=reply)
    return problem, reply


class AlertSender(Sender[Outgoing]):
    """Sends in threads: the libraries of mail and services block."""

    at_a_time = 8

    def __init__(self, node: Settings) -> None:
        super().__init__(OUTBOX)
        self._node = node
        self._pool = ThreadPoolExecutor(self.at_a_time, thread_name_prefix="alerts")

    async def send(self, message: Outgoing) -> tuple[str, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        problem, reply = await loop.run_in_executor(self._pool, send, self._node, message)
        return problem, {"reply": reply}

    async def end(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
