"""Hosts that block, whose requests wait for long, or that no proxy fits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    MAX_SUBJECTS,
    Alarm,
    Condition,
    Facts,
    ServiceView,
    Threshold,
    filled,
)
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.models import HELD, Host, Severity
from crawlservice.proxies.pool import Missing, missing
from crawlservice.proxies.use import facts_of, sentence_of


def _held(view: ServiceView) -> Iterator[Alarm]:
    for host in Host.objects.filter(HELD).order_by("pk")[: MAX_SUBJECTS + 1]:
        until = host.held_until and host.held_until.isoformat()
        facts = {"host": host.name, "number": host.pk, "why": host.held_why, "until": until}
        since = host.held_since or view.now
        yield Alarm("host_held", host.name, since, facts, host=host.name)


def _held_sentence(facts: Facts) -> str:
    if facts["why"] == "blocked":
        return gettext("{host} blocks: nothing of it is fetched.").format(host=facts["host"])
    if facts["why"] == "asked":
        return gettext("{host} has asked for a long wait.").format(host=facts["host"])
    return gettext("{host} is held: {why}").format(host=facts["host"], why=facts["why"])


HOST_HELD = Condition(
    "host_held",
    _("host held"),
    Severity.WARNING,
    _held,
    _held_sentence,
    lambda facts: page_of("host", facts["number"]),
    urgency=40,
    rows=lambda: [Host.objects.filter(HELD)],
)


def _queue_age(view: ServiceView) -> Iterator[Alarm]:
    """Finds the host whose requests have been due for the longest time. Raises
    redis.RedisError."""
    oldest = view.frontier.hosts.longest_due()
    if oldest is None:
        return
    host, seconds = oldest
    if seconds >= 60 * view.floor("queue_age"):
        since = view.now - timedelta(seconds=seconds)
        yield Alarm("queue_age", "", since, {"host": host}, round(seconds / 60, 1), host=host)


QUEUE_AGE = Condition(
    "queue_age",
    _("requests wait long"),
    Severity.WARNING,
    _queue_age,
    filled(_("Requests of {host} have been due for long: the nodes cannot keep up.")),
    lambda facts: list_of("host", q=facts["host"]),
    Threshold(60, _("minutes"), 1, 10_080),
    urgency=60,
)


def _proxy_missing(view: ServiceView) -> Iterator[Alarm]:
    """Finds choices that no proxy fits, once for all hosts, and hosts whose fitting proxies rest.
    Raises redis.RedisError and django.db.Error."""
    found: dict[str, Missing] = {}
    for one in missing(view.frontier):  # the first ones first
        found.setdefault(f"{one.host} {one.choice}" if one.at_host else one.choice, one)
    hosts = dict(
        Host.objects.filter(name__in={one.host for one in found.values()}).values_list("name", "pk")
    )
    for subject, one in found.items():
        since = min(datetime.fromtimestamp(one.since, UTC), view.now)
        minutes = view.minutes_since(since)
        if minutes < view.floor("proxy_missing"):
            continue
        facts = facts_of(one)
        if one.at_host:
            facts["number"] = hosts.get(one.host)
        host = one.host if one.at_host else ""
        yield Alarm("proxy_missing", subject[:200], since, facts, round(minutes, 1), host=host)


PROXY_MISSING = Condition(
    "proxy_missing",
    _("no proxy"),
    Severity.SEVERE,
    _proxy_missing,
    sentence_of,
    lambda facts: page_of("host", facts.get("number")) or list_of("proxy"),
    Threshold(0.5, _("minutes"), 0.1, 10_080),
    urgency=100,
)
