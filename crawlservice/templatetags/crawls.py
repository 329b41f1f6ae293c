"""How numbers, states and addresses are shown on our pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.db.models import Model
from django.utils.text import capfirst
from django.utils.translation import gettext

from crawlframe.base.program import command
from crawlservice.display import (
    condition_badge,
    duration,
    in_words,
    label_chips,
    link_to,
    moment,
    readable,
    reason_words,
    sparkline,
    state_badge,
)
from crawlservice.hosts.host_labels import wait_of
from crawlservice.monitoring.owners import owners_of
from crawlservice.tasks.progress.forecast import Forecast

register = template.Library()
register.simple_tag(command)
register.simple_tag(label_chips)
register.filter("condition", condition_badge)
register.filter("duration", duration)
register.filter("in_words", in_words)
register.filter("linked", link_to)
register.filter("moment", moment)
register.filter("owners", owners_of)
register.filter("readable", readable)
register.filter("reason", reason_words)
register.filter("sparkline", sparkline)
register.filter("state", state_badge)
register.filter("wait", wait_of)

WHO = ("command", "by_itself")  # keys of an action's detail for actors other than users


@register.filter
def heading(title: Any) -> str:
    """A word of the interface with a capital; a row's name as it is."""
    return str(title) if isinstance(title, Model) else capfirst(str(title))


@register.filter
def pairs(values: Mapping[str, Any]) -> str:
    """``{"fields": ["url"], "requests": 3}`` -> ``fields url · requests 3``, without empty texts
    and the keys for the actor."""
    shown = {key: value for key, value in values.items() if key not in WHO and value != ""}
    return " · ".join(
        f"{gettext(key.replace('_', ' '))} {in_words(value)}" for key, value in shown.items()
    )


@register.filter
def delay_in_words(delay: Any) -> str:
    """The delay of a task, as it is written in settings; None: it has none."""
    if delay == "auto":
        return gettext("as fast as each host can take")
    if not delay:
        return gettext("no delay")
    return gettext("{n} s between two requests to a host").format(n=delay)


@register.inclusion_tag("admin/crawlservice/_bar.html")
def bar(known: Forecast) -> dict[str, Any]:
    """A task's progress in words, and as a bar if it is known."""
    whole = max(1, known.total or 0)
    progress = known.progress
    nf, ne, nx = (100 * n / whole for n in (progress.nf, progress.errors, progress.excluded))
    return {
        "known": known, "nf": round(nf, 2), "ne": round(ne, 2),
        "nx": round(nx, 2), "ended": round(nf + ne, 2),
    }  # fmt: skip
