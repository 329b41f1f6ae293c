"""Check: whether a proxy can be used, by the page that CRAWLFRAME_PROXY_ECHO names; without that,
only whether a connection to it can be made."""

from __future__ import annotations

import asyncio
import socket
import time
from datetime import timedelta
from typing import NamedTuple

from django.db.models import F, Q, QuerySet

from crawlframe.conf import Settings
from crawlframe.errors import BadRequest, ConfigError, FetchError, ProxyAuth
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.frontier.proxies import ProxyUse
from crawlframe.proxies.proxy import ChosenProxy as Usable
from crawlframe.request.request import Request
from crawlframe.spider.settings import SpiderSettings
from crawlservice.connections import clock
from crawlservice.models import Proxy
from crawlservice.proxies.pool import usable

TIMEOUT = 15.0  # seconds
AT_A_TIME = 20
FAILURE_AGE = timedelta(hours=1)  # after which earlier failures do not count any more
WRONG_LOGIN = "wrong login: it refused the credentials (407) when it was used last"
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 3600.0  # seconds between two checks of one that fails


class Checked(NamedTuple):
    """``problem``: "" if it works."""

    problem: str
    seconds: float


def waiting() -> QuerySet[Proxy]:
    """Proxies that are new or out."""
    return Proxy.objects.filter(enabled=True).exclude(state=Proxy.State.WORKING)


def due() -> list[Proxy]:
    """Some of the proxies that are due for a check."""
    rows = waiting().filter(Q(check_at__isnull=True) | Q(check_at__lte=clock.now()))
    return [*rows.order_by(F("check_at").asc(nulls_first=True), "pk")[:AT_A_TIME]]


def check_all(settings: Settings, rows: list[Proxy]) -> dict[int, Checked]:
    """Checks proxies at the same time, and writes the results. Raises django.db.Error."""
    found = asyncio.run(_check_all(settings, rows))
    for row in rows:
        settle(row, found[row.pk])
    return found


def take_out(row: Proxy, use: ProxyUse) -> None:
    """Takes out a proxy that requests could not use. A proxy that came back a short time ago is
    checked later than then: the check may not show its fault."""
    now = clock.now()
    if row.checked_at is None or now - row.checked_at > FAILURE_AGE:
        row.failures = 0
    row.failures += 1
    row.state = Proxy.State.FAILED
    row.problem = "three requests in a row could not use it"
    if use.login:
        row.problem += f": {WRONG_LOGIN}"
    row.check_at = now + _pause(row.failures)
    row.save(update_fields=("state", "failures", "problem", "check_at"))


def _pause(failures: int) -> timedelta:
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(20, failures - 1))
    return timedelta(seconds=pause)


def settle(row: Proxy, checked: Checked) -> None:
    """Writes the result of a check. One that works is used again; one that does not is checked
    again after a pause that grows. A proxy that works stays in use: only requests take it out."""
    now = clock.now()
    row.checked_at, row.problem = now, checked.problem[:500]
    if not checked.problem:
        row.latency_ms = round(1000 * checked.seconds)
        row.check_at = None
        if row.state != Proxy.State.WORKING:
            row.state, row.life = Proxy.State.WORKING, row.life + 1
    elif row.state != Proxy.State.WORKING:
        row.state, row.failures = Proxy.State.FAILED, row.failures + 1
        row.check_at = now + _pause(row.failures)
    fields = ("checked_at", "problem", "latency_ms", "failures", "check_at", "state", "life")
    row.save(update_fields=fields)


async def _check_all(settings: Settings, rows: list[Proxy]) -> dict[int, Checked]:
    downloader = Downloader(settings)
    try:
        checks = (_check(settings, downloader, row) for row in rows)
        results = await asyncio.gather(*checks)
    finally:
        await downloader.close()
    return {row.pk: result for row, result in zip(rows, results, strict=True)}


async def _check(settings: Settings, downloader: Downloader, row: Proxy) -> Checked:
    began = time.monotonic()
    try:
        proxy = usable(row.pk, row.url, row.sealed_login, row.named_by)
        async with asyncio.timeout(TIMEOUT):
            problem = await _problem_of(settings, downloader, proxy)
    except TimeoutError:
        problem = f"no answer within {TIMEOUT:g} s"
    except ProxyAuth as error:
        problem = f"wrong login: {error}"
    except (FetchError, BadRequest, ConfigError, OSError, ValueError) as error:
        problem = str(error) or type(error).__name__
    return Checked(" ".join(problem.split()), time.monotonic() - began)


async def _problem_of(settings: Settings, downloader: Downloader, proxy: Usable) -> str:
    if settings.proxy_echo:
        own = SpiderSettings(timeout=TIMEOUT, cookies=False, max_body=1 << 20)
        request = Request(settings.proxy_echo)
        response = await downloader.fetch(request, own, FetchContext(proxy=proxy))
        return "" if response.ok else f"{settings.proxy_echo} answered {response.status}"
    if (address := await _address_of(settings, proxy)) is None:
        return f"{proxy.host} is at no public address"
    _, writer = await asyncio.open_connection(address, proxy.port)
    writer.close()
    return ""


async def _address_of(settings: Settings, proxy: Usable) -> str | None:
    """The address to connect to; None: a page has named the proxy, at no public place."""
    if proxy.trusted:
        return proxy.host
    guard, loop = AddressGuard(settings.allow_private), asyncio.get_running_loop()
    found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    allowed = (str(place[4][0]) for place in found if guard.allows(str(place[4][0])))
    return next(allowed, None)
