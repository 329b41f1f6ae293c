"""Conditions of proxies: requests that wait for one that there is not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from crawlservice.alerts.finding import Finding, View
from crawlservice.alerts.wording import facts_of
from crawlservice.models import Host
from crawlservice.proxies.lacking import Missing, missing


def lacking(view: View) -> Iterator[Finding]:
    """Choices that no proxy fits, once for all hosts; and hosts where those that fit rest. Raises
    redis.RedisError and django.db.Error."""
    found: dict[str, Missing] = {}
    for one in missing(view.frontier):  # the first ones first
        found.setdefault(f"{one.host} {one.choice}" if one.at_host else one.choice, one)
    hosts = dict(
        Host.objects.filter(name__in={one.host for one in found.values()}).values_list("name", "pk")
    )
    for subject, one in found.items():
        since = min(datetime.fromtimestamp(one.since, UTC), view.now)
        minutes = (view.now - since).total_seconds() / 60
        if minutes < view.floor("proxy_missing"):
            continue
        facts = facts_of(one)
        if one.at_host:
            facts["number"] = hosts.get(one.host)
        host = one.host if one.at_host else ""
        yield Finding("proxy_missing", subject[:200], since, facts, round(minutes, 1), host=host)
