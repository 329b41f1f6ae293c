"""Rules: the label of each word of the frontier's gate (``lua/_gate.lua``)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from crawlservice.models import HELD, ORDERED, Host


class HostCondition(StrEnum):
    """The word that is shown for a host: the first one that is true."""

    UNKNOWN = "unknown"  # Redis is unreachable
    PAUSED = "paused"  # by an operator
    HELD = "held"  # it blocks, or has asked for a long wait
    RESTING = "resting"  # it refused or was unreachable
    ROBOTS = "robots"  # requests wait for its robots.txt
    WAITING = "waiting"  # for its delay, for another rule of the gate, or for a free worker
    CRAWLING = "crawling"
    IDLE = "idle"  # nothing waits and nothing is in flight


class HostRule(NamedTuple):
    """``reason``: the first part of a sentence whose second part is the end of the wait; "" if the
    condition says it all. ``label``, ``help``: of one that can be ordered for a host."""

    condition: HostCondition
    reason: str | Promise
    label: str | Promise = ""
    help: str | Promise = ""


RULES: dict[str, HostRule] = {
    "paused": HostRule(HostCondition.PAUSED, ""),
    "blocked": HostRule(HostCondition.HELD, _("it blocks")),
    "asked": HostRule(HostCondition.HELD, _("it asked for a long wait")),
    "refused": HostRule(HostCondition.RESTING, _("after a refusal (429 or 503)")),
    "quota": HostRule(HostCondition.RESTING, _("its rate headers allow few more requests for now")),
    "unreachable": HostRule(HostCondition.RESTING, _("after time-outs or refused connections")),
    "robots": HostRule(HostCondition.ROBOTS, _("its robots.txt cannot be read")),
    "delay": HostRule(HostCondition.WAITING, _("for its delay")),
    "window": HostRule(
        HostCondition.WAITING,
        _("outside of its window"),
        _("Window"),
        _("the time of day of requests, such as 22:00-06:00 Europe/Berlin; UTC without a zone"),
    ),
}
OTHER = HostRule(HostCondition.WAITING, "")  # of a word that is not known here


def rule_of(word: str) -> HostRule:
    """The rule with this word of the gate."""
    return RULES.get(word, OTHER._replace(reason=word))


class Which(StrEnum):
    """A choice of hosts; each has an index."""

    HELD = "held"
    PAUSED = "paused"
    ORDERED = "ordered"
    ERRORS = "errors"


CONDITIONS = {
    Which.HELD: HELD,
    Which.PAUSED: Q(paused=True),
    Which.ORDERED: ORDERED,
    Which.ERRORS: Q(errors__gt=0),
}


def chosen(which: Which | None = None, beginning: str = "") -> QuerySet[Host]:
    """The hosts of this kind whose names start so."""
    rows = Host.objects.all()
    if which is not None:
        rows = rows.filter(CONDITIONS[which])
    return named(rows, beginning)


def named(rows: QuerySet[Host], beginning: str) -> QuerySet[Host]:
    """The rows whose names start so; names are in lower case."""
    text = beginning.strip().lower()
    return rows.filter(name__startswith=text) if text else rows
