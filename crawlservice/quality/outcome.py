"""Verdict: findings are written down, told in an event, and change the outcome of their task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import override

from crawlframe.items.encode import clean_text
from crawlservice.models import Event, Finding, Profile, Task
from crawlservice.models.quality import FIELD
from crawlservice.models.task import REASON
from crawlservice.quality.deviation import Deviation
from crawlservice.quality.examples import Examples
from crawlservice.quality.history import History
from crawlservice.quality.run import RunStats
from crawlservice.quality.wording import sentence_of

# Monitors of whole runs, whose findings do not outlast a retry that puts them right.
OF_WHOLE = ("items", "pages", "duration", "errors", "section", "choice", "yield", "distinct")
QUALITY = "quality: "  # how the reason of a task begins whose outcome is that of its findings
RANKS = (Task.Outcome.FINISHED, Task.Outcome.FINISHED_WITH_ERRORS, Task.Outcome.FAILED)
NUMBERS = ("unit", "low", "high", "usual", "seen", "runs", "last_good", "good_version", "examples")


def record(
    task: Task, run: RunStats, history: History, found: Sequence[Deviation], *, ended: bool
) -> list[Finding]:
    """Writes what was found, in the transaction that has the profile locked; returns all findings
    of the task. Raises django.db.Error."""
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
    """The outcome and the reason of a task that ended so, with its findings: what its author did
    not expect makes it failed, what is unusual makes it finish with errors."""
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
        "source": finding.source,
        "monitor": finding.monitor,
        "field": finding.field,
        "subject": finding.subject,
        "unit": finding.unit,
        "low": finding.low,
        "high": finding.high,
        "usual": finding.usual,
        "seen": finding.seen,
        "since": finding.since and finding.since.isoformat(),
        "last_good": finding.last_good,
        "good_version": finding.good_version,
        "version": finding.version,
        "pages": [one["url"] for one in finding.examples],
    }
