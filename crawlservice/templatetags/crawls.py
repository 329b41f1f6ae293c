"""How numbers, states and addresses are shown on our pages."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice import nodes
from crawlservice.progress import Progress
from crawlservice.shown import link_to, moment, state_label
from crawlservice.terminal import duration as in_words

register = template.Library()

CONDITIONS = {
    nodes.OFFLINE: (_("offline"), "bad"),
    nodes.ABNORMAL: (_("abnormal"), "bad"),
    nodes.LEAVING: (_("leaving"), "quiet"),
    nodes.LOADING: (_("loading"), "quiet"),
    nodes.BUSY: (_("busy"), "good"),
    nodes.IDLE: (_("idle"), "quiet"),
}


@register.filter
def duration(seconds: float | None) -> str:
    """``75`` -> ``1:15``."""
    return in_words(seconds)


@register.filter
def compact_json(value: Any) -> str:
    """In one line."""
    return json.dumps(value, ensure_ascii=False)


@register.filter
def pretty_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@register.filter
def linked(url: str) -> SafeString | str:
    """A crawled URL as a link, if it is one that a browser may follow."""
    return link_to(url)


register.filter(moment)


@register.inclusion_tag("admin/crawlservice/_badge.html")
def state(value: str) -> dict[str, Any]:
    """The state of a task."""
    text, tone = state_label(value)
    return {"text": text, "tone": tone}


@register.inclusion_tag("admin/crawlservice/_badge.html")
def condition(value: str) -> dict[str, Any]:
    """The condition of a node."""
    text, tone = CONDITIONS[value]
    return {"text": text, "tone": tone}


@register.inclusion_tag("admin/crawlservice/_bar.html")
def bar(progress: Progress) -> dict[str, Any]:
    """How far a task is: finished, errors, remaining."""
    whole = max(1, progress.na)
    nf, ne = 100 * progress.nf / whole, 100 * progress.ne / whole
    return {"progress": progress, "nf": round(nf, 2), "ne": round(ne, 2), "done": round(nf + ne)}
