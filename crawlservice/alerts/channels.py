"""Channels: sends one message to one target, by mail, through a service, or as a webhook."""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email

from crawlframe.base.secret import MASK
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.models import AlertTarget, Severity, Webhook
from crawlservice.security.sealing import seal, unseal
from crawlservice.webhooks.address import Address
from crawlservice.webhooks.deliveries import WebhookMessage, destination

ADDRESSES = 20  # of one target
MAX_ADDRESS = 2_000  # characters of an address
_DINGTALK = re.compile(
    r"https://oapi\.dingtalk\.com/robot/send/?\?access_token=([\w-]+)(?:&secret=(\w+))?"
)
_FEISHU = re.compile(r"https://open\.feishu\.cn/open-apis/bot/v2/hook/([\w-]+)/?")
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
    """One attempt, which may take half a minute. Returns why the message did not arrive, or "", and
    the target's answer."""
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


def new_target(name: str, kind: str, address: str, webhook: Webhook | None = None) -> AlertTarget:
    """A saved target. Raises BadRule, ConfigError and django.db.Error."""
    if not name.strip() or len(name) > 100:
        raise BadRule("give it a name of 1 to 100 characters", "name")
    if AlertTarget.objects.filter(name=name).exists():
        raise BadRule(f"there is a target {name} already", "name")
    target = AlertTarget(name=name)
    set_address(target, kind, address, webhook)
    target.save()
    return target


def set_address(target: AlertTarget, kind: str, address: str, webhook: Webhook | None) -> None:
    """Gives the target its kind and address, unsaved. Raises BadRule, and ConfigError if the
    packages for services are not installed."""
    kinds = AlertTarget.Kind
    if kind not in kinds.values:
        raise BadRule(f"a target is one of {', '.join(kinds.values)}, not {kind}", "kind")
    address = address.strip()
    if len(address) > MAX_ADDRESS:
        raise BadRule(f"the address has more than {MAX_ADDRESS} characters", "address")
    if kind == kinds.WEBHOOK:
        if webhook is None:
            raise BadRule("name a webhook", "webhook")
        if address:
            raise BadRule("a webhook has its address itself; leave this empty", "address")
        address, shown = "", str(webhook)
    elif webhook is not None:
        raise BadRule(f"a target of kind {kind} has no webhook", "webhook")
    elif kind == kinds.MAIL:
        address = ", ".join(_mail_addresses(address))
        shown = address
    else:
        address = native(address)
        shown = _service(address)
    target.kind, target.webhook = kind, webhook
    target.sealed_address = seal(address)
    target.shown = shown if len(shown) <= 200 else f"{shown[:199]}…"


def native(address: str) -> str:
    """The address as apprise reads it. Apprise knows the addresses that other services give out."""
    if match := _DINGTALK.fullmatch(address):
        token, secret = match.groups()
        return f"dingtalk://{secret}@{token}" if secret else f"dingtalk://{token}"
    if match := _FEISHU.fullmatch(address):
        return f"feishu://{match[1]}"
    return address


def address_of(target: AlertTarget) -> str:
    """Raises SealError."""
    return unseal(target.sealed_address)


def recipients(address: str) -> list[str]:
    """The mail addresses of a target."""
    return [one for one in re.split(r"[,;\s]+", address) if one]


def _mail_addresses(text: str) -> list[str]:
    found = [*dict.fromkeys(recipients(text))]
    if not 0 < len(found) <= ADDRESSES:
        raise BadRule(
            f"give 1 to {ADDRESSES} mail addresses, separated by commas, such as ops@example.com",
            "address",
        )
    for one in found:
        try:
            validate_email(one)
        except ValidationError:
            raise BadRule(f"{one} is not a mail address", "address") from None
    return found


def _service(address: str) -> str:
    """The part of a service's address that is shown."""
    # Imported here: apprise is an extra, and takes memory.
    from crawlservice.alerts.services import check

    check(address)
    scheme = urlsplit(address).scheme.lower()
    if scheme in ("http", "https"):  # it was copied from the service
        return f"{scheme}://{urlsplit(address).hostname}/{MASK}"
    return f"{scheme}://{MASK}"
