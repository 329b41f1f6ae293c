"""Whose request it is, behind proxies: what is throttled and written down goes by that address."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse


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
