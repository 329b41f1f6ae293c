"""Proxied: checks for transfers through a proxy: the address of the target, and the cause of a
failure."""

from __future__ import annotations

from typing import Any

import pycurl

from crawlframe.base.urls import hostname_of
from crawlframe.errors import (
    ConnectError,
    FetchError,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnreaching,
)
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import AddressPins, Names, Pin, Unresolved
from crawlframe.proxies.proxy import ChosenProxy

AUTH = 407  # Proxy Authentication Required
COULDNT_RESOLVE_PROXY, PROXY_FAILED = 5, 97  # curl
_SILENT = (pycurl.E_GOT_NOTHING, pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR)
# CURLINFO_PROXY_ERROR of SOCKS proxies: errors of credentials, and of the host.
_CREDENTIALS = frozenset({11, 12, 14, 28, 33})
_HOST = frozenset({17, 19, 20, 21, 22, 23, 24})


async def check_target(url: str, where: str, names: Names, guard: AddressGuard) -> None:
    """Raises PrivateAddress unless a proxy may be asked for this URL: its host is, or resolves here
    to, a public address, or only the proxy can resolve it."""
    try:
        known = await names.resolve(hostname_of(url))
    except Unresolved:
        return
    for address in known.addresses:
        if not guard.allows(address):
            raise PrivateAddress.of(address, where)


async def pin_of(proxy: ChosenProxy, pins: AddressPins, seconds: float) -> Pin:
    """The addresses of a proxy. Raises ProxyFailed."""
    url = f"http://{proxy.url.partition('://')[2]}/"
    try:
        return pins.get(url) or await pins.find(url, seconds)
    except Unresolved as error:
        raise ProxyFailed(f"proxy {proxy.url}: {error}") from None


def check_answer(answer: Answer, journey: Journey) -> None:
    """Raises ProxyAuth or ProxyFailed for an answer that is the proxy's own, not the site's."""
    proxy = journey.proxy
    if proxy is None or journey.url.startswith("https:") or not proxy.scheme.startswith("http"):
        return  # the site's: it came through a tunnel
    if answer.status == AUTH:
        raise ProxyAuth(f"{journey.where}: proxy {proxy.url} asks for other credentials (407)")
    if answer.status >= 500 and "error=" in answer.headers.get("Proxy-Status", ""):  # RFC 9209
        status = answer.headers["Proxy-Status"][:200]
        raise ProxyUnreaching(f"{journey.where}: proxy {proxy.url}: {status}")


def failure_of(curl: Any, code: int, detail: str, journey: Journey) -> FetchError | None:
    """The error of a transfer through a proxy that has failed before it reached the site; None for
    one that the proxy is not known to be the reason of."""
    proxy = journey.proxy
    assert proxy is not None
    if code == pycurl.E_ABORTED_BY_CALLBACK:  # by us
        return None
    message = f"{journey.where}: proxy {proxy.url}: {detail} (curl {code})"
    if code == PROXY_FAILED:
        why = curl.getinfo(pycurl.PROXY_ERROR)
        if why in _CREDENTIALS:
            return ProxyAuth(message)
        return ProxyUnreaching(message) if why in _HOST else ProxyFailed(message)
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return ConnectError(message)  # a SOCKS proxy cannot resolve it
    tunnel = curl.getinfo(pycurl.HTTP_CONNECTCODE)
    if tunnel == AUTH:
        return ProxyAuth(message)
    if tunnel and not 200 <= tunnel < 300:
        return ProxyUnreaching(message)
    if code in (COULDNT_RESOLVE_PROXY, pycurl.E_COULDNT_CONNECT):
        return ProxyFailed(message)
    if not curl.getinfo(pycurl.CONNECT_TIME):
        return ProxyFailed(message)  # not even a connection
    if code in _SILENT and not tunnel and not curl.getinfo(pycurl.RESPONSE_CODE):
        return ProxyFailed(message)  # it closed the connection, where it should have answered 502
    unopened = not curl.getinfo(pycurl.PRETRANSFER_TIME)
    if unopened and journey.url.startswith("https:") and not tunnel:
        return ProxyUnreaching(f"{message}: no tunnel")
    return None
