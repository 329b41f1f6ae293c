"""Channels: sends one message to one target, by mail, through a service, or as a webhook."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import Any

import orjson
from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.message import sanitize_address

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlservice.alerts.targets import recipients
from crawlservice.models import AlertTarget, Severity, Webhook
from crawlservice.security.sealing import unseal
from crawlservice.webhooks.address import Address
from crawlservice.webhooks.deliveries import WebhookMessage, destination

LENGTH = 1_000  # characters of a problem


@dataclass(frozen=True)
class Outgoing:
    """One message with everything that is needed to send it. ``address`` is secret."""

    kind: str
    address: str = field(repr=False)
    webhook: tuple[Address, str] | None = field(repr=False)
    key: str
    title: str
    text: str
    content: dict[str, Any]
    severity: Severity


def outgoing(target: AlertTarget, **message: Any) -> Outgoing:
    """Raises SealError, and ConfigError if the target's webhook is disabled or gone."""
    webhook = None
    if target.kind == AlertTarget.Kind.WEBHOOK:
        row = Webhook.objects.filter(pk=target.webhook_id or 0).first()
        if row is None:
            raise ConfigError("its webhook was deleted; choose another")
        if not row.enabled:
            raise ConfigError("its webhook is disabled; enable it under Webhooks")
        webhook = destination(row)
    return Outgoing(target.kind, unseal(target.sealed_address), webhook, **message)


def send(node: Settings, message: Outgoing) -> tuple[str, str]:
    """One attempt, which may take half a minute. Returns why it did not arrive, or "", and what the
    target answered."""
    if message.kind == AlertTarget.Kind.MAIL:
        return _mail(message)
    if message.kind == AlertTarget.Kind.WEBHOOK:
        return _webhook(node, message)
    from crawlservice.alerts import services  # apprise takes memory, and is an extra

    return services.send(node, message.address, message.title, message.text, message.severity)


def _mail(message: Outgoing) -> tuple[str, str]:
    if not settings.EMAIL_HOST:
        return "no mail server is set: CRAWLFRAME_SMTP_HOST, on the web and all nodes", ""
    _, sender = parseaddr(settings.DEFAULT_FROM_EMAIL)
    domain = sender.partition("@")[2] or "localhost"
    server, to = EmailBackend(), recipients(message.address)
    mail = EmailMessage(
        subject=" ".join(message.title.split()),
        body=message.text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=to,
        # The same in each attempt, so that a mailbox that got it shows it once.
        headers={"Message-ID": f"<{message.key}@{domain}>", "Auto-Submitted": "auto-generated"},
    )
    try:
        server.open()
        assert server.connection is not None
        content = mail.message().as_bytes(linesep="\r\n")  # type: ignore[call-arg]
        # Not by Django's own sending, which does not say that one of several was refused.
        refused = server.connection.sendmail(sender, [_ascii(one) for one in to], content)
    except smtplib.SMTPRecipientsRefused as error:
        return f"the mail server refused {_refusals(error.recipients)}"[:LENGTH], ""
    except smtplib.SMTPResponseException as error:
        return f"the mail server answered {_reply(error.smtp_code, error.smtp_error)}"[:LENGTH], ""
    except (smtplib.SMTPException, ssl.SSLError, OSError, ValueError) as error:
        place = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
        return f"the mail server {place}: {type(error).__name__}: {error}"[:LENGTH], ""
    finally:  # a login that was refused leaves it open
        with suppress(smtplib.SMTPException, OSError):
            server.close()
    but = f", but refused {_refusals(refused)}" if refused else ""
    return "", f"{settings.EMAIL_HOST} accepted it{but}"[:LENGTH]


def _ascii(address: str) -> str:
    """An address, with its domain as mail servers read it."""
    return sanitize_address(address, "utf-8")


def _refusals(found: Mapping[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{to}: {_reply(*why)}" for to, why in found.items())


def _reply(code: int, text: bytes | str) -> str:
    shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return f"{code} {' '.join(shown.split())}"


def _webhook(node: Settings, message: Outgoing) -> tuple[str, str]:
    # Imported here: curl takes memory.
    from crawlservice.webhooks.sender import send_now

    assert message.webhook is not None
    name = f"alert_{message.key}"
    body = {
        "id": name,
        "kind": "alert",
        "title": message.title,
        "text": message.text,
        "alert": message.content,
    }
    problem = send_now(node, WebhookMessage(*message.webhook, name, orjson.dumps(body)))
    return problem, "" if problem else "it accepted it"
