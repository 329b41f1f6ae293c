"""Conditions of tasks: failed, with errors, silent, with too many errors or parked requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from crawlservice.alerts.finding import Finding, RunningTask, Unknown, View
from crawlservice.models import OPEN, Alert, Task
from crawlservice.quality.verdict import QUALITY

LOOKED_AT = 2_000  # latest tasks of an outcome that are looked at
KEPT = timedelta(days=7)  # after which a failed task is history
FEW = 20  # pages from which on the share of errors says something

Outcome = Task.Outcome
ENDED = (Outcome.FINISHED, Outcome.FINISHED_WITH_ERRORS, Outcome.FAILED)


def failed(view: View) -> Iterator[Finding]:
    """Spiders whose latest run with the same arguments failed."""
    return _ended("task_failed", Outcome.FAILED, view.now)


def with_errors(view: View) -> Iterator[Finding]:
    """Spiders whose latest run with the same arguments had errors."""
    return _ended("task_errors", Outcome.FINISHED_WITH_ERRORS, view.now)


def _ended(kind: str, outcome: Task.Outcome, now: datetime) -> Iterator[Finding]:
    columns = ("pk", "spider", "arguments_hash", "finished_at")
    ended = Task.objects.filter(outcome=outcome).order_by("-pk").values_list(*columns)
    # Those that have an alert are looked at however many others came later.
    facts = Alert.objects.filter(OPEN, kind=kind).values_list("facts", flat=True)
    known = [one["task"] for one in facts if isinstance(one, dict) and "task" in one]
    looked_at = {row[0]: row for row in (*ended[:LOOKED_AT], *ended.filter(pk__in=known))}
    found: dict[tuple[str, int | None], int] = {}
    for pk in sorted(looked_at, reverse=True):
        _, spider, digest, at = looked_at[pk]
        if at is not None and at > now - KEPT:
            found.setdefault((spider, digest), pk)
    numbers = [*found.values()]
    later = Task.objects.filter(
        arguments_hash=OuterRef("arguments_hash"),
        spider=OuterRef("spider"),
        pk__gt=OuterRef("pk"),
        outcome__in=ENDED,
    )
    rows = Task.objects.filter(~Exists(later), pk__in=numbers)
    for task in rows.only("spider", "arguments_hash", "finished_at", "reason", "items", "ne",
                          "cancelled", "excluded"):  # fmt: skip
        if kind == "task_errors" and not task.errors and task.reason.startswith(QUALITY):
            continue  # its quality failed, which is a condition of its own
        yield Finding(
            kind,
            f"{task.spider}:{task.arguments_hash}" if task.arguments_hash else str(task),
            task.finished_at or now,
            {
                "spider": task.spider, "task": task.pk, "reason": task.reason,
                "errors": task.errors, "items": task.items,
            },
            spider=task.spider,
            task=task.pk,
        )  # fmt: skip


def error_share(view: View) -> Iterator[Finding | Unknown]:
    """Running tasks of whose pages more than a share are errors."""
    for task in view.tasks:
        counts = task.counts
        if counts is None:
            continue
        pages = counts.nf + counts.errors
        share = 100 * counts.errors / pages if pages else 0.0
        if pages >= FEW and share >= view.floor("error_share"):
            facts = {**_facts(task), "percent": round(share), "pages": pages}
            yield _of(task, "error_share", view.now, facts, float(round(share)))
    yield from _uncounted(view)


def parked(view: View) -> Iterator[Finding | Unknown]:
    """Tasks with requests that no running code could take."""
    for task in view.tasks:
        if task.counts is not None and task.counts.parked > 0:
            facts = {**_facts(task), "requests": task.counts.parked}
            yield _of(task, "parked", view.now, facts, None)
    yield from _uncounted(view)


class Silence:
    """Finds tasks that should go on and do not. It remembers their numbers, so a new leader counts
    from when it began, except for what was found before: ``known``, tasks and since when."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, datetime]] = {}

    def look(
        self, tasks: Iterable[RunningTask], known: Mapping[int, datetime], now: datetime
    ) -> dict[int, datetime]:
        """The tasks that have something to do, and since when nothing was done. Must be called in
        each round."""
        before, self._seen = self._seen, {}
        found = {}
        for task in tasks:
            counts = task.counts
            if counts is None or counts.state != Task.State.RUNNING:
                continue
            if counts.ready <= 0 and counts.in_progress <= 0:
                continue  # nothing is due
            done = counts.na + counts.nf + counts.ne
            start = (done, known.get(task.number, now))
            last, since = before.get(task.number, start)
            self._seen[task.number] = done, since if last == done else now
            found[task.number] = self._seen[task.number][1]
        return found


def silent(view: View, since: Mapping[int, datetime]) -> Iterator[Finding | Unknown]:
    """``since``: as ``Silence.look`` returns it. A task that the gate keeps back is not silent.
    Raises redis.RedisError."""
    found = []
    for task in view.tasks:
        began = since.get(task.number)
        if began is not None:
            minutes = (view.now - began).total_seconds() / 60
            if minutes >= view.least["silent"]:
                found.append(_of(task, "silent", began, _facts(task), round(minutes, 1)))
    silent = {one.task for one in found}
    counts = {task.number: task.counts for task in view.tasks if task.number in silent}
    meant = view.frontier.waits.of(counts)
    yield from (one for one in found if one.task not in meant)
    yield from _uncounted(view)


def _uncounted(view: View) -> Iterator[Unknown]:
    """The tasks that the frontier does not know, as while it is rebuilt."""
    return (Unknown(str(task.number)) for task in view.tasks if task.counts is None)


def _facts(task: RunningTask) -> dict[str, str | int]:
    return {"spider": task.spider, "task": task.number}


def _of(
    task: RunningTask,
    kind: str,
    since: datetime,
    facts: Mapping[str, str | int],
    value: float | None,
) -> Finding:
    return Finding(
        kind, str(task.number), since, facts, value, spider=task.spider, task=task.number
    )
