"""How crawled data is displayed: always as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
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
from crawlservice.quality.wording import in_language
from crawlservice.tasks.progress.phrases import PHRASES

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

MAX_DEPTH = 6  # tables within each other

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
    """The reason of a task, in the reader's language; or of a request: its name in English, as in
    the docs and the API; else its phrase. The other one is the title."""
    if (phrase := PHRASES.get(reason)) is None:
        return in_language(reason)
    english = (get_language() or "en").startswith("en")
    shown, title = (reason, phrase) if english else (phrase, reason)
    return format_html('<span title="{}">{}</span>', title, shown)


def condition_badge(condition: str) -> SafeString:
    """The condition of a node."""
    return badge(*CONDITIONS[condition])


def in_words(value: Any, depth: int = MAX_DEPTH) -> str:
    """Data on one line, without the marks of JSON: ``title Chair · tags new, oak``. Values below
    ``depth`` stay JSON."""
    if value in (None, "", [], {}):
        return "–"
    if isinstance(value, dict) and depth:
        return " · ".join(f"{name} {in_words(one, depth - 1)}" for name, one in value.items())
    if isinstance(value, list) and depth:
        words = ((one, in_words(one, depth - 1)) for one in value)
        return ", ".join(f"({text})" if isinstance(one, dict) else text for one, text in words)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def readable(data: Any) -> SafeString:
    """Data as tables and text; its JSON is a click away."""
    text = laid_out(json.dumps(data, ensure_ascii=False, indent=2))
    fold = '{}<details class="cf-fold cf-end"><summary>JSON</summary>{}</details>'
    return format_html(fold, _tables(data, MAX_DEPTH), text)


def _tables(value: Any, depth: int) -> SafeString | str:
    """Names with their values; a table of objects; or one line, also below ``depth``."""
    if isinstance(value, dict) and value and depth:
        rows = ((name, _tables(one, depth - 1)) for name, one in value.items())
        facts = format_html_join("", "<dt>{}</dt><dd>{}</dd>", rows)
        return format_html('<dl class="cf-facts">{}</dl>', facts)
    objects = isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    if not objects or not depth:
        text = in_words(value)
        return laid_out(text) if "\n" in text else link_to(text)
    names = [*dict.fromkeys(name for one in value for name in one)]
    head = format_html_join("", '<th scope="col">{}</th>', ((name,) for name in names))
    table = [[(_tables(one.get(name), depth - 1),) for name in names] for one in value]
    lines = ((format_html_join("", "<td>{}</td>", line),) for line in table)
    body = format_html_join("", "<tr>{}</tr>", lines)
    text = '<table class="cf-data"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'
    return format_html(f'<div class="cf-scroll" tabindex="0">{text}</div>', head, body)


def laid_out(text: str) -> SafeString:
    """Text with its line breaks, escaped."""
    return format_html('<pre class="cf-text">{}</pre>', text)


def moment(at: datetime | None, zone: tzinfo | None = None) -> SafeString | str:
    """A time on one line. The zone is named unless it is the page's, UTC."""
    if at is None:
        return "-"
    shown = localtime(at, zone)
    text = date_format(shown, "Y-m-d H:i:s" if shown.tzname() == "UTC" else "Y-m-d H:i:s T")
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
    return "-" if task is None else page_link(task, "task_change", task)


def page_link(text: Any, name: str, *args: Any, **query: Any) -> SafeString:
    """A link to the page of the admin whose URL has this name, with the parts of the URL."""
    place = reverse(f"admin:crawlservice_{name}", args=args)
    place += f"?{urlencode(query)}" if query else ""
    return format_html('<a class="cf-link" href="{}">{}</a>', place, text)


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
