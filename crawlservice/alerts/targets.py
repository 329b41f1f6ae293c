"""Targets: addresses are checked when they are entered, stored encrypted, and shown masked."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from crawlframe.base.secret import MASK
from crawlservice.alerts.kinds import BadRule
from crawlservice.models import AlertTarget, Webhook
from crawlservice.security.sealing import seal, unseal

ADDRESSES = 20  # of one target
MAX_ADDRESS = 2_000  # characters of an address

_DINGTALK = re.compile(
    r"https://oapi\.dingtalk\.com/robot/send/?\?access_token=([\w-]+)(?:&secret=(\w+))?"
)
_FEISHU = re.compile(r"https://open\.feishu\.cn/open-apis/bot/v2/hook/([\w-]+)/?")


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
    """The address as apprise reads it. It knows those that other services give out itself."""
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
    """What is shown of the address of a service."""
    # Imported here: apprise is an extra, and takes memory.
    from crawlservice.alerts.services import check

    check(address)
    scheme = urlsplit(address).scheme.lower()
    if scheme in ("http", "https"):  # it was copied from the service
        return f"{scheme}://{urlsplit(address).hostname}/{MASK}"
    return f"{scheme}://{MASK}"
