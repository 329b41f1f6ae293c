"""Orders: decisions of operators about a host, for all tasks and nodes; and names of hosts,
``host`` or ``host:port``, in the form that they have in links.

A decision is written to the database, with an entry in the journal, and then sent to Redis, where
it takes effect at once. The leading steward sends orders that Redis missed; at the start of an era
it sends all orders again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.contrib.auth.models import User as Account
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Concat, Now
from redis import RedisError

from crawlframe import gates
from crawlframe.base.urls import host_of, normalise
from crawlframe.errors import BadRequest, CrawlframeError, FieldError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.wording import error_text
from crawlframe.frontier.hosts import HostOrder
from crawlframe.robots.tdmrep import PATH as TDM_FILE
from crawlservice.accounts import journal
from crawlservice.connections import clock
from crawlservice.connections.contained import contained
from crawlservice.connections.frontier import frontier
from crawlservice.connections.lookup import NotFound
from crawlservice.models import HOST, NOTE, ORDERED, UNSENT, Host, RobotsFile
from crawlservice.tasks.submit import RedisNotUpdated

MAX_DELAY = 86_400.0  # seconds
MAX_CONCURRENCY = 10_000
HOSTS_PER_ROUND = 500  # hosts whose decisions a steward sends in one round
LIMITS = ("a delay", "a concurrency", *(f"a {name}" for name in gates.names()))  # of an order
_FOREIGN = re.compile(r"[\s/?#@\\\0]")
ORDER, RESUME, ROBOTS = "order", "resume", "robots"  # words of Host.unsent
NO_ORDER: dict[str, Any] = {
    "delay": None, "concurrency": None, "gates": {}, "paused": False, "order_until": None,
    "note": "", "ordered_by": None, "ordered_at": None,
}  # fmt: skip


class BadOrder(FieldError):
    """``field`` has a value that no order can have."""


@dataclass(frozen=True)
class Terms:
    """Until when an order holds (None: until it is cleared), and why it was given."""

    until: datetime | None = None
    note: str = ""


def pause(name: str, who: dict[str, Any], terms: Terms = Terms()) -> Host:
    """Stops fetching from the host. Ordered limits hold as long as the pause. ``who``: the caller,
    for the journal. As the functions below it returns the host, and raises BadHost, BadOrder, and
    RedisNotUpdated after it was recorded."""

    def change(host: Host) -> dict[str, Any]:
        _set(host, terms, who, paused=True)
        return _as_recorded(terms)

    return _decide("pause host", name, who, ORDER, change)


def resume(name: str, who: dict[str, Any]) -> Host:
    """Ends the pause of the host, and also its rest if it refused, blocked or was unreachable.
    Limits that were ordered stay."""

    def change(host: Host) -> dict[str, Any]:
        host.paused = False
        if host.delay is None and host.concurrency is None and not host.gates:
            _clear(host)
        return {}

    return _decide("resume host", name, who, f"{ORDER} {RESUME}", change)


def order(
    name: str,
    who: dict[str, Any],
    *,
    delay: float | None = None,
    concurrency: int | None = None,
    rules: Mapping[str, str] | None = None,
    terms: Terms = Terms(),
) -> Host:
    """Orders the delay in seconds, the number of requests in flight, and further ``rules`` of the
    gate by name, in place of the limits of tasks and of an earlier order. A host that is paused
    stays so."""
    rules = {name: value for name, value in (rules or {}).items() if value}
    if delay is None and concurrency is None and not rules:
        raise BadOrder(
            "delay", f"give {', '.join(LIMITS[:-1])} or {LIMITS[-1]}; or clear the order"
        )
    _check_rules(rules)
    if delay is not None and not (math.isfinite(delay) and 0 <= delay <= MAX_DELAY):
        raise BadOrder("delay", f"delay is {delay}; it must be from 0 to {MAX_DELAY:.0f} seconds")
    if concurrency is not None and not 1 <= concurrency <= MAX_CONCURRENCY:
        raise BadOrder(
            "concurrency",
            f"concurrency is {concurrency}; it must be from 1 to {MAX_CONCURRENCY}, or pause the "
            "host",
        )

    def change(host: Host) -> dict[str, Any]:
        _set(host, terms, who, delay=delay, concurrency=concurrency, gates=rules)
        limits = {"delay": delay, "concurrency": concurrency, **rules}
        return {key: value for key, value in limits.items() if value is not None} | _as_recorded(
            terms
        )

    return _decide("order host", name, who, ORDER, change)


def _check_rules(rules: Mapping[str, str]) -> None:
    for name, value in rules.items():
        if name not in gates.names():
            known = ", ".join(gates.names()) or "none"
            raise BadOrder("rules", f"{name} is no rule that can be ordered; there are: {known}")
        try:
            gates.check(name, value)
        except ValueError as error:
            raise BadOrder(name, str(error)) from None


def clear(name: str, who: dict[str, Any]) -> Host:
    """Ends the order, pause included: the limits of each task hold again."""

    def change(host: Host) -> dict[str, Any]:
        _clear(host)
        return {}

    return _decide("clear host", name, who, ORDER, change)


def forget_robots(name: str, who: dict[str, Any]) -> Host:
    """Makes tasks that obey it fetch the robots.txt of the host again before anything else."""
    return _decide("forget robots", name, who, ROBOTS, lambda host: {})


# -- Redis -----------------------------------------------------------------------------------------


def keep(there: Frontier) -> None:
    """A round of the leading steward: ends orders whose time is over, and sends Redis the orders
    that it missed. Raises redis.RedisError, FrontierError and django.db.Error."""
    over = Host.objects.filter(ORDERED, order_until__lte=Now())
    for pk in over.values_list("pk", flat=True)[:HOSTS_PER_ROUND]:
        with contained(f"host {pk}"), transaction.atomic():
            host = over.select_for_update().filter(pk=pk).first()
            if host is not None:
                _clear(host)
                _save(host, ORDER)
    unsent = Host.objects.filter(UNSENT).order_by("pk")
    for pk in unsent.values_list("pk", flat=True)[:HOSTS_PER_ROUND]:
        with contained(f"host {pk}"):
            _send(there, pk)


def send_again(there: Frontier, still_here: Callable[[], None] = lambda: None) -> None:
    """Makes the orders of Redis equal to the database's, at the start of an era: Redis may have
    forgotten orders, or remember cleared ones. Raises as ``keep`` does."""
    known = Host.objects.filter(ORDERED).exclude(unsent__contains=ORDER)
    known.update(unsent=Concat(F("unsent"), Value(f" {ORDER}")))
    for names in _batches(there.hosts.active()):
        states = there.hosts.states(names)
        ordered = {name for name, state in states.items() if state.order is not None}
        rightly = Host.objects.filter(ORDERED, name__in=ordered).values_list("name", flat=True)
        for name in ordered.difference(rightly):
            there.hosts.clear_order(name)
        still_here()
    last = 0
    unsent = Host.objects.filter(UNSENT).order_by("pk").values_list("pk", flat=True)
    while pks := [*unsent.filter(pk__gt=last)[:HOSTS_PER_ROUND]]:
        for last in pks:
            with contained(f"host {last}"):
                _send(there, last)
        still_here()


def _send(there: Frontier, pk: int) -> None:
    """Sends Redis the decisions that it missed about this host. However many processes do so at a
    time, the latest decision comes last."""
    words: set[str] = set()
    while (host := Host.objects.filter(pk=pk).first()) is not None:
        words.update(host.unsent.split())
        if ORDER in words:
            if host.ordered_at is None:
                there.hosts.clear_order(host.name)
            else:
                there.hosts.order(host.name, _as_order(host))
        if RESUME in words:
            there.hosts.resume(host.name)
        if ROBOTS in words:
            _forget_robots(there, host.name)
        same = Host.objects.filter(pk=pk, order_number=host.order_number)
        if same.update(unsent=""):
            return
        # A newer decision may have been sent before this process sent the older one.


def _forget_robots(there: Frontier, name: str) -> None:
    there.hosts.forget_robots([name])
    files = [f"{scheme}://{name}{file}" for scheme in ("http", "https") for file in ("", TDM_FILE)]
    RobotsFile.objects.filter(origin__in=files).delete()
    there.hosts.forget_robots([name])  # a worker may have looked in between


def _as_order(host: Host) -> HostOrder:
    until = host.order_until.timestamp() if host.order_until else None
    return HostOrder(host.delay, host.concurrency, host.paused, until, host.gates)


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    while batch := [*islice(names, HOSTS_PER_ROUND)]:
        yield batch


# -- the database ----------------------------------------------------------------------------------


def _decide(
    verb: str,
    name: str,
    who: dict[str, Any],
    words: str,
    change: Callable[[Host], dict[str, Any]],
) -> Host:
    """Changes the host with ``change``, which returns the journal's entry."""
    name = check_name(name)
    with transaction.atomic():
        host, created = Host.objects.select_for_update().get_or_create(name=name)
        if created:
            host.refresh_from_db()
        detail = change(host)
        _save(host, words)
        journal.record(verb, **who, host=name, **detail)
        transaction.on_commit(lambda: _send_now(host))
    return host


def _send_now(host: Host) -> None:
    try:
        _send(frontier(), host.pk)
    except (RedisError, CrawlframeError) as error:
        why = error_text(error) if isinstance(error, RedisError) else str(error)
        raise RedisNotUpdated(
            f"the decision about {host.name} is in the database, but not in Redis. {why}. Nothing "
            "must be repeated: the nodes send it when Redis is back"
        ) from None
    host.unsent = ""


def _set(host: Host, terms: Terms, who: dict[str, Any], **fields: Any) -> None:
    if len(terms.note) > NOTE:
        raise BadOrder("note", f"the note has {len(terms.note)} characters; {NOTE} are possible")
    now = clock.now()
    if terms.until is not None and terms.until <= now:
        raise BadOrder("until", f"until is {terms.until:%Y-%m-%d %H:%M}, which has passed")
    user = who.get("user")
    fields |= {"order_until": terms.until, "note": terms.note, "ordered_at": now}
    fields["ordered_by"] = user if isinstance(user, Account) else None
    for field, value in fields.items():
        setattr(host, field, value)


def _clear(host: Host) -> None:
    for field, value in NO_ORDER.items():
        setattr(host, field, value)


def _save(host: Host, words: str) -> None:
    host.order_number += 1
    host.unsent = " ".join(dict.fromkeys(f"{host.unsent} {words}".split()))
    host.save(update_fields=[*NO_ORDER, "order_number", "unsent"])


def _as_recorded(terms: Terms) -> dict[str, Any]:
    """The terms as the journal records them."""
    until = {"until": terms.until.isoformat(timespec="seconds")} if terms.until else {}
    return until | ({"note": terms.note} if terms.note else {})


class BadHost(CrawlframeError):
    """This is no name of a host."""


def check_name(given: str) -> str:
    """The name as links have it: in lower case, international names in their ASCII form, without
    the usual ports 80 and 443. Raises BadHost."""
    name = given.strip()
    problem = BadHost(
        f"{given[:300]!r} is not a host; give one as it is in links, such as example.com or "
        "example.com:8080, without https:// and path"
    )
    if not name or _FOREIGN.search(name):
        raise problem
    try:
        scheme = "https" if name.endswith(":443") else "http"  # as links to that port have it
        found = host_of(normalise(f"{scheme}://{name}/"))
    except BadRequest:
        raise problem from None
    if not found or len(found) > HOST:
        raise problem
    return found


def get_host(given: str) -> Host:
    """The host of this name. Raises BadHost and NotFound."""
    name = check_name(given)
    host = Host.objects.select_related("ordered_by").filter(name=name).first()
    if host is None:
        raise NotFound(
            "host", f"nothing is known of the host {name}; it has not been fetched from yet"
        )
    return host
