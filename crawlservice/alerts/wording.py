"""Wording: the sentence, the place and the message of an alert. Pages show them in the reader's
language, messages are English."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext, ngettext

from crawlservice.alerts.kinds import KINDS
from crawlservice.models import Alert, Severity
from crawlservice.models import Finding as QualityFinding
from crawlservice.proxies.lacking import Missing
from crawlservice.quality.wording import sentence_of

LISTED = 8  # alerts listed in one message
LONGEST = 300  # characters of one line
ROOM = 1_700  # characters of a text: some services take 2,000 and would cut it
TITLE = 200

Facts = Mapping[str, Any]


def sentence(alert: Alert) -> str:
    """What is the matter, in one sentence."""
    facts = alert.facts if isinstance(alert.facts, dict) else {}
    make = SENTENCES.get(alert.kind)
    try:
        return make(facts) if make else str(facts.get("text") or alert)
    except (KeyError, TypeError, ValueError):  # facts of another release
        return f"{title_of(alert.kind)}: {alert.subject}"


def title_of(kind: str) -> str:
    """The name of a condition, in the reader's language."""
    return str(KINDS[kind].title) if kind in KINDS else kind


def place(alert: Alert) -> str:
    """The path of the page of its cause; that of the alert if there is none."""
    facts = alert.facts if isinstance(alert.facts, dict) else {}
    if alert.kind in ("error_share", "task_errors") and facts.get("task"):
        return f"{_list('page')}?state__exact=error&task={facts['task']}"
    for name in ("task", "generation"):
        if facts.get(name):
            return _page(name, facts[name])
    if alert.host and facts.get("number"):
        return _page("host", facts["number"])
    for name in ("schedule", "export"):
        if facts.get(name) and facts.get("number"):
            return _page(name, facts["number"])
    if facts.get("refused"):
        return _page("rowdelivery", facts["refused"])
    if facts.get("database"):
        return f"{_list('rowdelivery')}?database={quote(str(facts['database']))}"
    if alert.kind == "proxy_missing":
        return _list("proxy")
    if alert.kind == "queue_age":
        return f"{_list('host')}?q={quote(str(facts.get('host', '')))}"
    if alert.kind in ("no_leader", "redis_memory", "chores"):
        return _list("generation")
    return _page("alert", alert.pk)


def _list(model: str) -> str:
    # Not by ``reverse``: nodes, which send messages, have no admin.
    return f"/admin/crawlservice/{model}/"


def _page(model: str, number: object) -> str:
    return f"{_list(model)}{number}/change/"


# -- messages --------------------------------------------------------------------------------------


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
                if len(lines) >= LISTED or len(line) > room:
                    left += 1
                    continue
                lines.append(line)
                room -= len(line) + 2
        if left:
            lines.append(f"… and {left} more: {settings.PUBLIC_URL}{_list('alert')}?kind={kind}")
        content = {
            "condition": kind,
            "severity": Severity(max(alert.severity for alert in told)).name.lower(),
            "new": [described(alert) for alert in new[:LISTED]],
            "again": [described(alert) for alert in again[:LISTED]],
            "resolved": [described(alert) for alert in over[:LISTED]],
            "count": {"new": len(new), "again": len(again), "resolved": len(over)},
        }
        return title, "\n\n".join(lines), content


def described(alert: Alert) -> dict[str, Any]:
    """An alert, for programs."""
    return {
        "id": alert.pk,
        "text": sentence(alert),
        "spider": alert.spider or None,
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
    return f"• {_cut(sentence(alert), LONGEST)} ({since}){link}"


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


# -- sentences -------------------------------------------------------------------------------------


def _task(facts: Facts) -> str:
    return f"{facts['spider']} #{facts['task']}"


def _failed(facts: Facts) -> str:
    text = gettext("{task} failed: {reason}")
    return text.format(task=_task(facts), reason=facts["reason"] or gettext("no reason is known"))


def _errors(facts: Facts) -> str:
    text = ngettext(
        "{task} finished with {n} error: {reason}",
        "{task} finished with {n} errors: {reason}",
        facts["errors"],
    )
    return text.format(task=_task(facts), n=facts["errors"], reason=facts["reason"] or "–")


def _share(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("{task}: {percent} % of {pages} pages so far are errors.")
    return text.format(task=_task(facts), percent=facts["percent"], pages=facts["pages"])


def _silent(facts: Facts) -> str:
    return gettext("{task} has requests to fetch, and none has ended for a while.").format(
        task=_task(facts)
    )


def _parked(facts: Facts) -> str:
    text = ngettext(
        "{task}: {n} request is parked, because no running code can take it.",
        "{task}: {n} requests are parked, because no running code can take them.",
        facts["requests"],
    )
    return text.format(task=_task(facts), n=facts["requests"])


def _held(facts: Facts) -> str:
    if facts["why"] == "blocked":
        return gettext("{host} blocks: nothing of it is fetched.").format(host=facts["host"])
    if facts["why"] == "asked":
        return gettext("{host} has asked for a long wait.").format(host=facts["host"])
    return gettext("{host} is held: {why}").format(host=facts["host"], why=facts["why"])


def no_proxy(one: Missing) -> str:
    """Why requests of a host find no proxy, in one sentence."""
    return _no_proxy(facts_of(one))


def facts_of(one: Missing) -> dict[str, Any]:
    """What the sentence of an alert about it says."""
    facts = {"choice": one.choice, "cause": one.cause, "host": one.host, "proxies": one.proxies}
    if one.at_host:
        until = datetime.fromtimestamp(one.until, UTC)
        facts["until"] = f"{until:%Y-%m-%d %H:%M:%S} UTC"
    return facts


def _no_proxy(facts: Facts) -> str:
    return CAUSES[facts["cause"]]().format(
        host=facts["host"], choice=facts["choice"], until=facts.get("until", "")
    )


CAUSES: dict[str, Callable[[], str]] = {
    "empty": lambda: gettext("Requests wait for a proxy, and the pool is empty."),
    "unfit": lambda: gettext("Requests wait for a proxy, and none in the pool fits {choice}."),
    "disabled": lambda: gettext("Requests wait for a proxy; all that fit {choice} are disabled."),
    "unchecked": lambda: gettext(
        "Requests wait for a proxy; those that fit {choice} have not been checked yet."
    ),
    "failed": lambda: gettext("Requests wait for a proxy; all that fit {choice} have failed."),
    "blocked": lambda: gettext("{host} blocks all proxies that fit {choice}, until {until}."),
    "resting": lambda: gettext("All proxies that fit {choice} rest at {host}, until {until}."),
}


def _waits(facts: Facts) -> str:
    return gettext("Requests of {host} have been due for long: the nodes cannot keep up.").format(
        host=facts["host"]
    )


def _gone(facts: Facts) -> str:
    text = ngettext(
        "Node {node} died or is cut off; {n} request was given back.",
        "Node {node} died or is cut off; {n} requests were given back.",
        facts["requests"],
    )
    return text.format(node=facts["node"], n=facts["requests"])


def _refused(facts: Facts) -> str:
    if facts["pulled"]:
        text = gettext("{node} could not pull: {problem}")
    elif facts["candidate"]:
        text = gettext("{node} refused {candidate}: {problem}")
    else:
        text = gettext("Some code does not load on {node}: {problem}")
    return text.format(
        node=facts["node"], candidate=facts["candidate"], problem=facts["problem"] or "–"
    )


def _disk(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("The disk of node {node} is {percent} % full.")
    return text.format(node=facts["node"], percent=facts["percent"])


def _cannot_start(facts: Facts) -> str:
    text = gettext("Schedule {schedule} cannot start: {problem}")
    return text.format(schedule=facts["schedule"], problem=facts["problem"])


def _missed(facts: Facts) -> str:
    text = gettext("Schedule {schedule} missed its start, because no node was running.")
    return text.format(schedule=facts["schedule"])


def _memory(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("Redis uses {percent} % of its {size} MiB; when it is full, crawling stops.")
    return text.format(percent=facts["percent"], size=round(facts["bytes"] / (1 << 20)))


def _no_leader(facts: Facts) -> str:
    why = {
        "redis": gettext("Redis does not answer."),
        "other": gettext("Redis belongs to another installation."),
    }.get(facts["why"], gettext("No node is running, or none can lead."))
    return f"{gettext('Nothing is started, watched or replayed.')} {why}"


def _chores(facts: Facts) -> str:
    text = {
        "era": gettext("No node may claim requests: Redis has lost data, and is not filled again."),
        "eras": gettext("Redis has lost data again and again within 10 minutes."),
        "restarts": gettext("The steward of {node} dies again and again: see the log of the node."),
    }.get(facts["why"], gettext("Chores of the cluster fail on {node}: {problem}"))
    return text.format(node=facts.get("node"), problem=facts.get("problem") or "–")


def _quality(facts: Facts) -> str:
    found = [sentence_of(QualityFinding(**one)) for one in facts["found"]]
    if facts["more"]:
        found.append(gettext("and {more} more").format(more=facts["more"]))
    return gettext("{task}: its items are not as they should be: {found}").format(
        task=_task(facts), found=" · ".join(found)
    )


def _delivery(facts: Facts) -> str:
    if facts.get("refused"):
        text = gettext("The database {database} refuses rows of a page: {problem}")
        return text.format(database=facts["database"], problem=facts["problem"])
    if facts.get("database"):
        text = gettext("Rows for the database {database} wait: {problem}")
        return text.format(database=facts["database"], problem=facts["problem"])
    text = gettext("The target of export {export} fails: {problem}")
    return text.format(export=facts["export"], problem=facts["problem"] or "–")


SENTENCES: dict[str, Callable[[Facts], str]] = {
    "task_failed": _failed,
    "task_errors": _errors,
    "error_share": _share,
    "silent": _silent,
    "parked": _parked,
    "host_held": _held,
    "proxy_missing": _no_proxy,
    "queue_age": _waits,
    "node_gone": _gone,
    "code_refused": _refused,
    "disk": _disk,
    "schedule": _cannot_start,
    "schedule_missed": _missed,
    "redis_memory": _memory,
    "no_leader": _no_leader,
    "chores": _chores,
    "quality": _quality,
    "delivery": _delivery,
}
