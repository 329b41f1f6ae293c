"""Inbox: a webhook receiver and a mail server on loopback, and when each alert arrived."""

from __future__ import annotations

import logging
import socket
import time
from typing import Any, NamedTuple

from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from crawlservice.models import AlertRule, AlertTarget, Webhook
from crawlservice.webhooks.deliveries import give_secret
from tests.crawlservice.receiver import Receiver

FROM, TO = "crawls@example.com", "team@example.com"


class Arrival(NamedTuple):
    """A message. ``at``: Unix time at which it arrived."""

    at: float
    by: str  # webhook or mail
    text: str


class Mailbox(Message):
    def __init__(self) -> None:
        super().__init__()
        self.arrivals: list[Arrival] = []

    def handle_message(self, message: Any) -> None:
        text = f"{message['Subject']}\n{message.get_payload(decode=True).decode()}"
        self.arrivals.append(Arrival(time.time(), "mail", text))


class Inbox:
    """``with Inbox() as inbox``; ``settings`` are variables of nodes and the web."""

    def __init__(self) -> None:
        self._hook, self._mailbox = Receiver(), Mailbox()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._mail = Controller(self._mailbox, hostname="127.0.0.1", port=port)
        self.settings = {
            "CRAWLFRAME_SMTP_HOST": "127.0.0.1",
            "CRAWLFRAME_SMTP_PORT": str(port),
            "CRAWLFRAME_SMTP_SECURITY": "none",
            "CRAWLFRAME_MAIL_FROM": FROM,
        }

    def __enter__(self) -> Inbox:
        logging.getLogger("mail.log").setLevel(logging.WARNING)
        self._mail.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._mail.stop()
        self._hook.close()

    def subscribe(self, silent: float) -> None:
        """Makes both targets and a rule that reports everything to them. ``silent``: minutes
        without progress from which a task counts as silent."""
        from crawlservice.alerts.channels import new_target

        hook = Webhook(name="team", url=self._hook.url)
        give_secret(hook)
        hook.save()
        targets = [
            new_target("team chat", AlertTarget.Kind.WEBHOOK, "", hook),
            new_target("team mail", AlertTarget.Kind.MAIL, TO),
        ]
        thresholds = {"silent": silent}
        rule = AlertRule.objects.create(name="all", thresholds=thresholds, group_minutes=0)
        rule.targets.set(targets)

    @property
    def arrivals(self) -> list[Arrival]:
        """All alerts so far."""
        found = [
            Arrival(told.at, "webhook", f"{told.content['title']}\n{told.content['text']}")
            for told in self._hook.told
            if told.content["kind"] == "alert"
        ]
        return [*found, *self._mailbox.arrivals]

    def first(self, by: str, words: str) -> Arrival | None:
        """The first message that has these words."""
        found = [one for one in self.arrivals if one.by == by and words in one.text]
        return min(found, default=None)
