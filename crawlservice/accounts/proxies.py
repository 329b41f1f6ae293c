"""Whose request it is, behind proxies: what is throttled and written down goes by that address."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

OF_ONE = 64  # bits of an address of IPv6 that are given to a customer; the others he chooses


class ClientAddress:
    """REMOTE_ADDR becomes what the outermost of our proxies saw. Each appends to X-Forwarded-For by
    whom it was asked; what stands further left was written by the client, and may be a lie."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.proxies: int = settings.PROXIES
        if not self.proxies:
            raise MiddlewareNotUsed

    def __call__(self, request: HttpRequest) -> HttpResponse:
        chain = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        if len(chain) >= self.proxies and (address := _address(chain[-self.proxies])):
            request.META["REMOTE_ADDR"] = address
        return self.get_response(request)


@register(Tags.security, deploy=True)
def check_proxies(app_configs: Any, **_: Any) -> list[CheckMessage]:
    if not settings.HTTPS or settings.PROXIES:
        return []
    told = (
        "CRAWLFRAME_HTTPS is on and CRAWLFRAME_PROXIES is 0: all users seem to come from the "
        "address of the proxy that speaks TLS, and one who guesses passwords locks out all"
    )
    return [Warning(told, hint="set CRAWLFRAME_PROXIES=1", id="crawlservice.W001")]


def place_of(request: HttpRequest) -> str | None:
    """What failed logins are counted by: the address, or the network that one who has an address of
    IPv6 has whole. None when it is not known."""
    address = _address(request.META.get("REMOTE_ADDR", ""))
    if not address:
        return None
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), OF_ONE), strict=False).network_address)


def _address(text: str) -> str:
    """Without its port, which some proxies add; "" when it is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
