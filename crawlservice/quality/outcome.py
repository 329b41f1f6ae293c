"""Verdict: findings are written down, told in an event, and change the outcome of their task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import override

from crawlframe.items.encode import clean_text
from crawlservice.models import Event, Finding, Item, Page, Profile, Task
from crawlservice.models.quality import FIELD
from crawlservice.models.task import REASON
from crawlservice.quality.deviation import Deviation
from crawlservice.quality.norms import History
from crawlservice.quality.run import RunStats
from crawlservice.quality.sketch import hash_of
from crawlservice.quality.texts import is_broken
from crawlservice.quality.wording import QUALITY, sentence_of
from crawlservice.tasks.results.item_filter import is_empty
from crawlservice.tasks.results.task_rows import of_task

LATEST_ROWS = 200  # latest items, and latest pages
MAX_EXAMPLES = 3  # examples of one finding
LENGTH = 200  # characters of a value
# Monitors of whole runs, whose findings do not outlast a retry that puts them right.
OF_WHOLE = ("items", "pages", "duration", "errors", "section", "choice", "yield", "distinct")
RANKS = (Task.Outcome.FINISHED, Task.Outcome.FINISHED_WITH_ERRORS, Task.Outcome.FAILED)
TOLD = (
    "source", "monitor", "field", "subject", "unit", "low", "high", "usual", "seen", "last_good",
    "good_version", "version",
)  # fmt: skip
NUMBERS = ("unit", "low", "high", "usual", "seen", "runs", "last_good", "good_version", "examples")


def record(
    task: Task, run: RunStats, history: History, found: Sequence[Deviation], *, ended: bool
) -> list[Finding]:
    """Writes deviations as findings, in the transaction that has the profile locked; returns all
    findings of the task. Raises django.db.Error."""
    known = {
        (f.source, f.monitor, f.field, f.subject): f for f in Finding.objects.filter(task=task)
    }
    stored = {*known}
    examples = Examples(task.pk)
    current = set()
    for one in found:
        key = _cleaned(one)
        current.add(key)
        finding = known.get(key)
        if finding is None:
            finding = known[key] = _finding(task, run, one, key)
        finding.unit, finding.low, finding.high = one.unit, one.low, one.high
        finding.usual, finding.seen = one.usual, one.seen
        finding.runs = history.norms.runs if one.source == Finding.Source.MONITOR else 0
        finding.last_good, finding.good_version = history.last_good or None, history.version
        if key not in stored or ended:
            finding.examples = examples.of(one)
    if ended:
        for key, finding in [*known.items()]:
            if key not in current and (key[1] in OF_WHOLE or not finding.told):
                del known[key]
                finding.delete()
    Finding.objects.bulk_create(
        known.values(),
        update_conflicts=True,
        unique_fields=["task", "source", "monitor", "field", "subject"],
        update_fields=[*NUMBERS],
    )
    return [*Finding.objects.filter(task=task)]


def _cleaned(found: Deviation) -> tuple[str, str, str, str]:
    source, monitor, field, subject = found.key
    return source, monitor, clean_text(field)[:FIELD], clean_text(subject)[:FIELD]


def _finding(
    task: Task, run: RunStats, found: Deviation, key: tuple[str, str, str, str]
) -> Finding:
    source, monitor, field, subject = key
    return Finding(
        task=task,
        spider=task.spider,
        source=source,
        monitor=monitor,
        field=field,
        subject=subject,
        version=run.version,
        since=None if found.since is None else datetime.fromtimestamp(found.since, UTC),
    )


def worse(outcome: str, reason: str, findings: Sequence[Finding]) -> tuple[str, str]:
    """The outcome and the reason of a task that ended so, with its findings: a broken expectation
    fails the task, an unusual value makes it finish with errors."""
    if not findings or outcome not in RANKS:
        return outcome, reason
    expected = [f for f in findings if f.source == Finding.Source.EXPECTATION]
    least = Task.Outcome.FAILED if expected else Task.Outcome.FINISHED_WITH_ERRORS
    if RANKS.index(Task.Outcome(outcome)) < RANKS.index(least):
        outcome = least.value
        reason = "; ".join(filter(None, (_quality(expected or findings), reason)))
    return outcome, reason if len(reason) <= REASON else f"{reason[: REASON - 1]}…"


def _quality(findings: Sequence[Finding]) -> str:
    with override("en"):
        first = sentence_of(findings[0])
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"{QUALITY}{first}{more}"


def tell(task: Task, profile: Profile, findings: Sequence[Finding], action: str) -> Event | None:
    """The event about findings that none has named yet, unsaved; None if all have been named. An
    action becomes due with it."""
    new = [finding for finding in findings if not finding.told]
    if not new:
        return None
    Finding.objects.filter(pk__in=[finding.pk for finding in new]).update(told=True)
    if action != "alert":
        profile.action_due = action
    with override("en"):
        detail = {"action": action, "findings": [as_json(finding) for finding in new]}
    reason = _quality(new)
    return Event(
        task=task,
        kind=Event.Kind.QUALITY_FAILED,
        outcome=task.outcome,
        reason=reason if len(reason) <= REASON else f"{reason[: REASON - 1]}…",
        detail=detail,
    )


def as_json(finding: Finding) -> dict[str, Any]:
    """A finding in an event: without values of items, which not every receiver may see."""
    return {
        "text": sentence_of(finding),
        **{name: getattr(finding, name) for name in TOLD},
        "since": finding.since and finding.since.isoformat(),
        "pages": [one["url"] for one in finding.examples],
    }


class Examples:
    """Examples of one task; its latest rows are read once. Raises django.db.Error."""

    def __init__(self, task: int) -> None:
        self._task = task
        self._items: list[Item] | None = None

    def of(self, found: Deviation) -> list[dict[str, Any]]:
        """``item`` (number), ``rid``, ``url`` and ``value`` of up to MAX_EXAMPLES."""
        if found.monitor in ("errors", "status"):
            return self._pages(found)
        if not found.field:
            return []
        items = [one for one in self._latest() if _shows(found, one.data)]
        if found.monitor == "unique":
            items = _repeated(items, found.field)
        chosen = items[:MAX_EXAMPLES]
        rids = {one.rid for one in chosen}
        urls = dict(Page.objects.filter(rid__in=rids).values_list("rid", "url"))
        return [
            {
                "item": one.pk,
                "rid": str(one.rid),
                "url": urls.get(one.rid, ""),
                "value": _short(one.data.get(found.field)),
            }
            for one in chosen
        ]

    def _latest(self) -> list[Item]:
        if self._items is None:
            rows = of_task(Item.objects.only("rid", "data", "task_id"), self._task, newest=True)
            self._items = [one for one in rows[:LATEST_ROWS] if isinstance(one.data, dict)]
        return self._items

    def _pages(self, found: Deviation) -> list[dict[str, Any]]:
        rows = of_task(Page.objects.filter(state=Page.State.ERROR), self._task, newest=True)
        if found.monitor == "status":
            rows = of_task(Page.objects.filter(status=int(found.subject)), self._task, newest=True)
        some = rows.values_list("rid", "url", "reason")[:MAX_EXAMPLES]
        return [
            {"item": None, "rid": str(rid), "url": url, "value": reason}
            for rid, url, reason in some
        ]


def _shows(found: Deviation, data: dict[str, Any]) -> bool:
    value = data.get(found.field)
    match found.monitor:
        case "filled":
            return is_empty(value)
        case "zero":
            return value == 0 and not isinstance(value, bool)
        case "broken":
            return isinstance(value, str) and is_broken(value)
        case "length":
            long = len(value) if isinstance(value, str | list | dict) else 0
            return not _within(long, found)
        case "value":
            return isinstance(value, int | float) and not _within(value, found)
        case "choice" | "section":
            return False  # it is gone
        case _:
            return not is_empty(value)


def _within(value: float, found: Deviation) -> bool:
    low, high = found.low, found.high
    return (low is None or value >= low) and (high is None or value <= high)


def _repeated(items: list[Item], field: str) -> list[Item]:
    seen: dict[int, list[Item]] = {}
    for one in items:
        seen.setdefault(hash_of(str(one.data.get(field))), []).append(one)
    return [one for some in seen.values() if len(some) > 1 for one in some]


def _short(value: Any) -> Any:
    if isinstance(value, str | list | dict):
        text = value if isinstance(value, str) else repr(value)
        return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"
    return value
