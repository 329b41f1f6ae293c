"""Chores of the cluster fail. The web finds it, too: such a leader may not come to look."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import MAX_LINE, Alarm, Condition, Facts, ServiceView
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.ledger.recovery import ERAS, LATELY, newest
from crawlservice.models import Era, Severity

RESTARTS = 3  # of a steward in ten minutes


def find(view: ServiceView) -> Iterator[Alarm]:
    """Finds a Redis that no node may claim from, and nodes whose steward dies repeatedly, or fails.
    Raises redis.RedisError and django.db.Error."""
    if (latest := newest()) and view.frontier.eras.settled() != latest:
        yield Alarm("chores", "", view.now, {"why": "era"})
    elif Era.objects.filter(started_at__gt=view.now - LATELY).count() > ERAS:
        yield Alarm("chores", "", view.now, {"why": "eras"})
    for info in view.living:
        health, facts = info.health, {"node": info.node, "generation": info.generation}
        if health.restarts >= RESTARTS:
            yield Alarm("chores", info.node, view.now, {**facts, "why": "restarts"})
        elif health.failures:
            facts["problem"] = health.waits[:MAX_LINE]
            yield Alarm("chores", info.node, view.now, {**facts, "why": "failures"})


def sentence(facts: Facts) -> str:
    text = {
        "era": gettext("No node may claim requests: Redis has lost data, and is not filled again."),
        "eras": gettext("Redis has lost data again and again within 10 minutes."),
        "restarts": gettext("The steward of {node} dies again and again: see the log of the node."),
    }.get(facts["why"], gettext("Chores of the cluster fail on {node}: {problem}"))
    return text.format(node=facts.get("node"), problem=facts.get("problem") or "–")


CONDITION = Condition(
    "chores",
    _("chores fail"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("generation", facts.get("generation")) or list_of("generation"),
    urgency=20,
    by_web=True,
)
