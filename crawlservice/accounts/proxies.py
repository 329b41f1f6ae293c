"""The client's address behind proxies: throttling and the journal go by it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

OF_ONE = 64  # bits of an IPv6 address that a provider assigns; the customer chooses the others


class ClientAddress:
    """Sets REMOTE_ADDR to the address that the outermost of our proxies saw. Each proxy appends its
    client's address to X-Forwarded-For; anything further left was sent by the client and may be
    forged."""

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
        "address of the TLS proxy, so one client that guesses passwords locks out everybody"
    )
    return [Warning(told, hint="set CRAWLFRAME_PROXIES=1", id="crawlservice.W001")]


def place_of(request: HttpRequest) -> str | None:
    """The key to count failed logins by: an IPv4 address, or the network that an IPv6 customer
    owns. None if the address is unknown."""
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
    """The address without the port that some proxies add; "" if it is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
