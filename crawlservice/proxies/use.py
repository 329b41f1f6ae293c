"""Use: the proxies of the pool at a host, and the hosts of a proxy, for pages of the admin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.utils.translation import gettext
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.frontier.proxies import PairState, PairUse
from crawlservice.connections.frontier import frontier
from crawlservice.models import Host, Proxy
from crawlservice.proxies.check import WRONG_LOGIN
from crawlservice.proxies.pool import Missing, missing

MAX_ROWS = 100  # rows on a page
SENTENCES = 5  # about the proxies that a task waits for
SEARCHED_HOSTS = 500  # hosts fetched last, searched for hosts of a proxy


def lasts(until: float, now: float) -> datetime | None:
    """An instant in seconds since the epoch, if it is still to come."""
    return datetime.fromtimestamp(until, UTC) if until > now else None


class AtHost(NamedTuple):
    """A proxy at a host. ``state`` is None if nothing holds it up there."""

    proxy: Proxy
    use: PairUse
    state: PairState | None

    @property
    def used_at(self) -> datetime:
        return datetime.fromtimestamp(self.use.used_at, UTC)


def problems(rows: Iterable[Proxy]) -> dict[int, str]:
    """The problem of each of these proxies, by its last check and, as far as Redis answers, the
    last request that used it."""
    found = {row.pk: row.problem for row in rows}
    with suppress(RedisError, CrawlframeError):
        for pk, one in frontier().proxies.use(found).items():
            if one.login and "wrong login" not in found[pk]:
                found[pk] = f"{WRONG_LOGIN}; {found[pk]}".removesuffix("; ")
    return found


def at_host(host: str) -> tuple[list[AtHost], dict[str, int]]:
    """The proxies of the pool that were used at a host within a day, those used last first, and the
    learned tiers by choice. Raises redis.RedisError and django.db.Error."""
    proxies = frontier().proxies
    use = proxies.used_at(host)
    last = sorted(use.pairs, key=lambda pk: use.pairs[pk].used_at, reverse=True)[:MAX_ROWS]
    rows, states = Proxy.objects.in_bulk(last), proxies.at(host, last)
    return [AtHost(rows[pk], use.pairs[pk], states.get(pk)) for pk in last if pk in rows], use.tiers


def lacks_at(host: str) -> list[Missing]:
    """Requests of a host that wait for a proxy. Raises redis.RedisError and django.db.Error."""
    return [*missing(frontier(), host)]


def lacks_of(task: int) -> list[Missing]:
    """The proxies that a task waits for, as far as Redis answers: each choice, and each host where
    all rest, once. Raises django.db.Error."""
    found: dict[tuple[str, str], Missing] = {}
    with suppress(RedisError, CrawlframeError):
        for one in missing(frontier(), task=task):
            found.setdefault((one.choice, one.host if one.at_host else ""), one)
    return [*found.values()][:SENTENCES]


def hosts_of(proxy: int) -> list[tuple[Host, PairUse, PairState | None]]:
    """The hosts at which a proxy was used within a day, among the SEARCHED_HOSTS fetched last.
    Raises redis.RedisError and django.db.Error."""
    proxies = frontier().proxies
    hosts = {host.name: host for host in Host.objects.order_by("-last_at")[:SEARCHED_HOSTS]}
    uses = proxies.uses((name, proxy) for name in hosts)
    last = sorted(uses, key=lambda pair: uses[pair].used_at, reverse=True)[:MAX_ROWS]
    states = proxies.states(last)
    return [(hosts[pair[0]], uses[pair], states.get(pair)) for pair in last]


def no_proxy(one: Missing) -> str:
    """Why requests of a host find no proxy, in one sentence."""
    return sentence_of(facts_of(one))


def facts_of(one: Missing) -> dict[str, Any]:
    """The facts that an alert about it keeps."""
    facts = {"choice": one.choice, "cause": one.cause, "host": one.host, "proxies": one.proxies}
    if one.at_host:
        until = datetime.fromtimestamp(one.until, UTC)
        facts["until"] = f"{until:%Y-%m-%d %H:%M:%S} UTC"
    return facts


def sentence_of(facts: Mapping[str, Any]) -> str:
    """The sentence that such facts make."""
    return CAUSES[facts["cause"]]().format(
        host=facts["host"], choice=facts["choice"], until=facts.get("until", "")
    )


CAUSES: dict[str, Callable[[], str]] = {
    "empty": lambda: gettext("Requests wait for a proxy, and the pool is empty."),
    "unfit": lambda: gettext("Requests wait for a proxy, and none in the pool fits {choice}."),
    "disabled": lambda: gettext("Requests wait for a proxy; all that fit {choice} are disabled."),
    "unchecked": lambda: gettext(
        "Requests wait for a proxy; proxies that fit {choice} have not been checked yet."
    ),
    "failed": lambda: gettext("Requests wait for a proxy; all that fit {choice} have failed."),
    "blocked": lambda: gettext("{host} blocks all proxies that fit {choice}, until {until}."),
    "resting": lambda: gettext("All proxies that fit {choice} rest at {host}, until {until}."),
}
