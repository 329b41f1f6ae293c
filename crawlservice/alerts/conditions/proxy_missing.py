"""Requests wait for a proxy that there is not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import Alarm, Condition, Facts, ServiceView, Threshold
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.models import Host, Severity
from crawlservice.proxies.pool import Missing, missing
from crawlservice.proxies.use import facts_of, sentence_of


def find(view: ServiceView) -> Iterator[Alarm]:
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


def link(facts: Facts) -> str:
    return page_of("host", facts.get("number")) or list_of("proxy")


CONDITION = Condition(
    "proxy_missing",
    _("no proxy"),
    Severity.SEVERE,
    find,
    sentence_of,
    link,
    Threshold(0.5, _("minutes"), 0.1, 10_080),
    urgency=100,
)
