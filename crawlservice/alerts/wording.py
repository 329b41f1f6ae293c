"""Wording: the sentence, the place and the message of an alert. Pages show them in the reader's
language, messages are English."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils import translation

from crawlservice.alerts.condition import MAX_LINE, Facts, conditions
from crawlservice.models import Alert, Severity
from crawlservice.monitoring.owners import owners

MAX_ALERTS = 8  # alerts listed in one message
ROOM = 1_700  # characters of a text: some services take 2,000 and would cut it
TITLE = 200


def sentence(alert: Alert) -> str:
    """The cause of an alert, in one sentence."""
    facts = _facts(alert)
    known = conditions().get(alert.kind)
    if known is None:  # of a package that is not installed here
        return str(facts.get("text") or alert)
    try:
        return known.sentence(facts)
    except (KeyError, TypeError, ValueError):  # facts of another release
        return f"{known.title}: {alert.subject}"


def title_of(kind: str) -> str:
    """The name of a condition, in the reader's language."""
    return str(conditions()[kind].title) if kind in conditions() else kind


def place(alert: Alert) -> str:
    """The path of the page of its cause; of the alert's page if there is none."""
    known = conditions().get(alert.kind)
    with suppress(KeyError, TypeError, ValueError):
        if known is not None and (path := known.link(_facts(alert))):
            return path
    return page_of("alert", alert.pk)


def spiders_of(alert: Alert) -> set[str]:
    """The spiders that it concerns: a case may have several."""
    return {alert.spider, *_facts(alert).get("spiders", ())} - {""}


def owners_of(alert: Alert) -> list[str]:
    """The owners of its spiders."""
    known = owners()
    some = [known.get(spider, ()) for spider in sorted(spiders_of(alert))]
    return [*dict.fromkeys(name for names in some for name in names)]


def _facts(alert: Alert) -> Facts:
    return alert.facts if isinstance(alert.facts, dict) else {}


def message(
    kind: str, new: Sequence[Alert], again: Sequence[Alert], over: Sequence[Alert]
) -> tuple[str, str, dict[str, Any]]:
    """Title, text and content for programs of one message about alerts of one condition."""
    with translation.override("en"):
        told = [*new, *again] or [*over]
        title = _title(kind, told, over if not (new or again) else ())
        parts = [
            *(("", [*new]),),
            *((("Still open:", [*again]),) if again else ()),
            *((("Resolved:", [*over]),) if over else ()),
        ]
        lines: list[str] = []
        room = ROOM
        left = 0
        for head, alerts in parts:
            for number, alert in enumerate(alerts):
                line = "\n".join(filter(None, [head if number == 0 else "", _line(alert)]))
                if len(lines) >= MAX_ALERTS or len(line) > room:
                    left += 1
                    continue
                lines.append(line)
                room -= len(line) + 2
        if left:
            lines.append(f"… and {left} more: {settings.PUBLIC_URL}{list_of('alert', kind=kind)}")
        content = {
            "condition": kind,
            "severity": Severity(max(alert.severity for alert in told)).name.lower(),
            "new": [described(alert) for alert in new[:MAX_ALERTS]],
            "again": [described(alert) for alert in again[:MAX_ALERTS]],
            "resolved": [described(alert) for alert in over[:MAX_ALERTS]],
            "count": {"new": len(new), "again": len(again), "resolved": len(over)},
        }
        return title, "\n\n".join(lines), content


def described(alert: Alert) -> dict[str, Any]:
    """An alert, for programs."""
    return {
        "id": alert.pk,
        "text": sentence(alert),
        "spider": alert.spider or None,
        "owners": owners_of(alert),
        "host": alert.host or None,
        "since": _iso(alert.since),
        "resolved_at": alert.resolved_at and _iso(alert.resolved_at),
        "link": f"{settings.PUBLIC_URL}{place(alert)}",
    }


def _title(kind: str, told: Sequence[Alert], over: Sequence[Alert]) -> str:
    severity = Severity(max(alert.severity for alert in told)).label
    head = "[Crawlframe] resolved: " if over else f"[Crawlframe] {severity}: "
    if len(told) == 1:
        text = _cut(sentence(told[0]), TITLE - len(head))
        return head + text.rstrip(".")
    return f"{head}{title_of(kind)} ({len(told)})"


def _line(alert: Alert) -> str:
    since = f"since {alert.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if alert.resolved_at is not None:
        since += f", until {alert.resolved_at.astimezone(UTC):%H:%M}"
    link = f"\n  {settings.PUBLIC_URL}{place(alert)}" if settings.PUBLIC_URL else ""
    return f"• {_cut(sentence(alert), MAX_LINE)} ({since}){link}"


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def list_of(model: str, **query: object) -> str:
    """The list of a model, filtered."""
    # Not by ``reverse``: nodes, which send messages, have no admin.
    path = f"/admin/crawlservice/{model}/"
    return f"{path}?{urlencode(query)}" if query else path


def page_of(model: str, number: object) -> str:
    """The page of a row; "" without a number."""
    return f"{list_of(model)}{number}/change/" if number else ""
