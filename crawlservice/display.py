"""How crawled data is displayed: always as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from crawlservice.models import Event, Page, Task
from crawlservice.tasks.progress.outcomes import PHRASES

STATES = {
    Task.State.RUNNING: (_("running"), "primary"),
    Task.State.PAUSED: (_("paused"), "warn"),
    Task.State.CANCELLING: (_("cancelling"), "warn"),
    Task.Outcome.FINISHED: (_("finished"), "good"),
    Task.Outcome.FINISHED_WITH_ERRORS: (_("finished with errors"), "warn"),
    Task.Outcome.FAILED: (_("failed"), "bad"),
    Task.Outcome.CANCELLED: (_("cancelled"), "muted"),
    Page.State.DONE: (_("done"), "muted"),
    Page.State.ERROR: (_("error"), "bad"),
    Event.Kind.SCHEDULE_FAILED: (_("schedule failed"), "bad"),
    Event.Kind.NODE_OFFLINE: (_("node offline"), "bad"),
    Event.Kind.NODE_BACK: (_("node back"), "good"),
    Event.Kind.HOST_HELD: (_("host held"), "warn"),
    Event.Kind.HOST_RESUMED: (_("host resumed"), "good"),
    Event.Kind.QUALITY_FAILED: (_("quality failed"), "bad"),
    Event.Kind.PAGES_FOUND: (_("pages found"), "good"),
    Event.Kind.PAGE_GONE: (_("page gone"), "warn"),
}


# Of a node's code.
CODE_STATES = {
    "loading": _("loading"),
    "live": _("live"),
    "checking": _("checking"),
    "refused": _("refused"),
    "leaving": _("leaving"),
    "offline": _("offline"),
}
CONDITIONS = {
    "offline": (_("offline"), "bad"),
    "abnormal": (_("abnormal"), "bad"),
    "leaving": (_("leaving"), "muted"),
    "loading": (_("loading"), "muted"),
    "busy": (_("busy"), "good"),
    "idle": (_("idle"), "muted"),
}


def state_label(state: str) -> tuple[str | Promise, str]:
    """A state or an outcome in the reader's language, and its tone: primary, good, warn, bad or
    muted."""
    return STATES.get(state, (state, "muted"))  # type: ignore[call-overload, no-any-return]


def badge(text: str | Promise, tone: str) -> SafeString:
    return format_html('<span class="cf-badge cf-{}">{}</span>', tone, text)


def state_badge(state: str) -> SafeString:
    return badge(*state_label(state))


def reason_words(reason: str) -> SafeString | str:
    """The reason of a request: its name in English, as in the docs and the API; else its phrase in
    the reader's language. The other one is the title."""
    if (phrase := PHRASES.get(reason)) is None:
        return reason
    english = (get_language() or "en").startswith("en")
    shown, title = (reason, phrase) if english else (phrase, reason)
    return format_html('<span title="{}">{}</span>', title, shown)


def condition_badge(condition: str) -> SafeString:
    """The condition of a node."""
    return badge(*CONDITIONS[condition])


def pretty(data: Any) -> SafeString:
    """JSON, indented and escaped."""
    return laid_out(json.dumps(data, ensure_ascii=False, indent=2))


def laid_out(text: str) -> SafeString:
    """Text with its line breaks, escaped."""
    return format_html('<pre class="cf-text">{}</pre>', text)


def marked(text: str | Promise) -> SafeString:
    """Text that is highlighted."""
    return badge(text, "bad")


def moment(at: datetime | None) -> SafeString | str:
    """A time on one line."""
    if at is None:
        return "-"
    text = date_format(localtime(at), "Y-m-d H:i:s")
    return format_html('<time class="cf-time" datetime="{}">{}</time>', at.isoformat(), text)


def duration(seconds: float | None) -> str:
    """``75`` -> ``1:15``, hours and days when there are any; ``-`` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{hours}:{minutes:02}:{rest:02}" if hours or days else f"{minutes}:{rest:02}"
    return f"{days} d {text}" if days else text


def outcome_of(task: Task | None) -> SafeString | str:
    """A task's state, or its outcome if it has ended."""
    return "-" if task is None else state_badge(task.status)


def task_link(task: int | None) -> SafeString | str:
    """A task's number, linked to its page."""
    if task is None:
        return "-"
    place = reverse("admin:crawlservice_task_change", args=[task])
    return format_html('<a class="cf-link" href="{}">{}</a>', place, task)


def label_chips(labels: Mapping[str, str], place: str) -> SafeString | str:
    """Labels, each linked to the rows that have it, of the list at ``place`` ("": this one)."""
    chips = [
        (f"{place}?{urlencode({'label': f'{name}={value}'})}", name, value)
        for name, value in labels.items()
    ]
    shown = format_html_join(" ", '<a class="cf-chip" href="{}"><b>{}</b> {}</a>', chips)
    return format_html('<span class="cf-chips">{}</span>', shown) if chips else ""


def change_since(now: int, before: int, task: int, *, same: bool) -> SafeString:
    """The change of a number since an earlier task; "" if there is none."""
    if now == before:
        return SafeString("")
    told = _("{n} in task {task}") if same else _("{n} in task {task}, with other arguments")
    sign = "+" if now > before else "−"
    return format_html(
        '<small class="cf-change" title="{}">{}{}</small>',
        str(told).format(n=f"{before:,}", task=task),
        sign,
        f"{abs(now - before):,}",
    )


def sparkline(values: Sequence[int]) -> SafeString | str:
    """Numbers as a small line, from 0 up; "" if there are fewer than two."""
    if len(values) < 2:
        return ""
    most, step = max(1, *values), 76 / (len(values) - 1)
    points = [(2 + n * step, 18 - 16 * value / most) for n, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return format_html(
        '<svg class="cf-spark" viewBox="0 0 80 20" width="80" height="20" role="img">'
        "<title>{}</title>"
        '<polyline points="{}"></polyline><circle cx="{}" cy="{}" r="2"></circle></svg>',
        ", ".join(f"{value:,}" for value in values),
        line,
        *(f"{place:.1f}" for place in points[-1]),
    )


def link_to(url: str) -> SafeString | str:
    """A crawled URL: a link only where a browser would fetch it, and without a referrer."""
    if not url.startswith(("http://", "https://")):
        return url
    return format_html(
        '<a class="cf-link" href="{}" rel="noreferrer noopener" target="_blank">{}</a>', url, url
    )
