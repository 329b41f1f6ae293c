"""The proxy of a transfer for the requests library: how it is named there, and its failures."""

from __future__ import annotations

from collections.abc import Sequence

import urllib3.exceptions as urllib3_errors
from requests import exceptions as requests_errors

from crawlframe.errors import (
    FetchError,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnfit,
    ProxyUnreaching,
)
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.journey.proxied import AUTH, check_answer

_PROXY_ERRORS = (urllib3_errors.ProxyError, requests_errors.ProxyError)


def proxies_of(journey: Journey) -> dict[str, str] | None:
    """The argument ``proxies`` of a request. Raises ProxyUnfit."""
    proxy = journey.proxy
    if proxy is None:
        return None
    if not proxy.scheme.startswith("http"):
        raise ProxyUnfit(
            f"{journey.where}: the requests downloader uses http and https proxies only, not "
            f"{proxy.url}; use the downloader curl"
        )
    if not proxy.trusted:  # its address cannot be checked
        raise ProxyUnfit(
            f"{journey.where}: the requests downloader uses proxies that operators have entered, "
            f"not {proxy.url}; import it into the pool, or use the downloader curl"
        )
    return dict.fromkeys(("http", "https"), proxy.full_url)


def checked(answer: Answer, journey: Journey) -> Answer:
    """Raises ProxyFailed for an answer that is the proxy's own."""
    check_answer(answer, journey)
    return answer


def failure_in(links: Sequence[BaseException], journey: Journey) -> FetchError | None:
    """The error of the proxy in the chain of an exception; None if the proxy is not known to be
    the reason."""
    proxy = journey.proxy
    if proxy is None or any(isinstance(link, PrivateAddress) for link in links):
        return None
    if not any(isinstance(link, _PROXY_ERRORS) for link in links):
        return None
    texts = " ".join(str(link) for link in links)
    message = f"{journey.where}: proxy {proxy.url}"
    if f"failed: {AUTH}" in texts:
        return ProxyAuth(f"{message} asks for other credentials ({AUTH})")
    if "Tunnel connection failed" in texts:
        return ProxyUnreaching(f"{message} makes no tunnel")
    return ProxyFailed(f"{message}: {type(links[-1]).__name__}")
