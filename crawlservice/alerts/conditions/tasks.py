"""Tasks: the latest runs of spiders that ended badly, and running tasks that do not get on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    Alarm,
    Condition,
    Facts,
    RunningTask,
    ServiceView,
    Threshold,
    Unknown,
)
from crawlservice.alerts.wording import list_of, page_of
from crawlservice.models import OPEN, Alert, Severity, Task
from crawlservice.quality.wording import QUALITY, in_language

LOOKED_AT = 2_000  # latest tasks of an outcome that are looked at
MAX_AGE = timedelta(days=7)  # after which a failed task is history
MIN_PAGES = 20  # from which on the share of errors says something
Outcome = Task.Outcome
ENDED = (Outcome.FINISHED, Outcome.FINISHED_WITH_ERRORS, Outcome.FAILED)


def name_of(facts: Facts) -> str:
    """A task, in sentences."""
    return f"{facts['spider']} #{facts['task']}"


def page_of_task(facts: Facts) -> str:
    return page_of("task", facts["task"])


def _errors_of_task(facts: Facts) -> str:
    return list_of("page", state__exact="error", task=facts["task"])


# -- tasks that ended ------------------------------------------------------------------------------


def _latest_runs(kind: str, outcome: Task.Outcome, now: datetime) -> Iterable[Task]:
    """The latest run of each spider with the same arguments, if it ended so and no case is about
    it."""
    rows = Task.objects.filter(outcome=outcome).order_by("-pk")
    ended = rows.values_list("pk", "spider", "arguments_hash", "finished_at")
    # Tasks that have an alert are looked at however many others came later.
    facts = Alert.objects.filter(OPEN, kind=kind).values_list("facts", flat=True)
    known = [one["task"] for one in facts if isinstance(one, dict) and "task" in one]
    looked_at = {row[0]: row for row in (*ended[:LOOKED_AT], *ended.filter(pk__in=known))}
    found: dict[tuple[str, int | None], int] = {}
    for pk in sorted(looked_at, reverse=True):
        _, spider, digest, at = looked_at[pk]
        if at is not None and at > now - MAX_AGE:
            found.setdefault((spider, digest), pk)
    later = Task.objects.filter(
        arguments_hash=OuterRef("arguments_hash"),
        spider=OuterRef("spider"),
        pk__gt=OuterRef("pk"),
        outcome__in=ENDED,
    )
    latest = Task.objects.filter(~Exists(later), pk__in=[*found.values()])
    columns = ("spider", "arguments_hash", "finished_at", "reason", "items")
    return latest.only(*columns, "ne", "cancelled", "excluded")


def _alarm_of(kind: str, task: Task, now: datetime) -> Alarm:
    subject = f"{task.spider}:{task.arguments_hash}" if task.arguments_hash else str(task)
    facts = {
        "spider": task.spider, "task": task.pk, "reason": task.reason,
        "errors": task.errors, "items": task.items,
    }  # fmt: skip
    since = task.finished_at or now
    return Alarm(kind, subject, since, facts, spider=task.spider, task=task.pk)


def _failed(view: ServiceView) -> Iterator[Alarm]:
    for task in _latest_runs("task_failed", Outcome.FAILED, view.now):
        yield _alarm_of("task_failed", task, view.now)


def _failed_sentence(facts: Facts) -> str:
    reason = in_language(facts["reason"]) or gettext("no reason is known")
    return gettext("{task} failed: {reason}").format(task=name_of(facts), reason=reason)


TASK_FAILED = Condition(
    "task_failed",
    _("task failed"),
    Severity.SEVERE,
    _failed,
    _failed_sentence,
    page_of_task,
    urgency=40,
    rows=lambda: [Task.objects.filter(outcome=Outcome.FAILED)],
)


def _had_errors(view: ServiceView) -> Iterator[Alarm]:
    for task in _latest_runs("task_errors", Outcome.FINISHED_WITH_ERRORS, view.now):
        # If only its quality failed, that is a condition of its own.
        if task.errors or not task.reason.startswith(QUALITY):
            yield _alarm_of("task_errors", task, view.now)


def _errors_sentence(facts: Facts) -> str:
    text = ngettext(
        "{task} finished with {n} error: {reason}",
        "{task} finished with {n} errors: {reason}",
        facts["errors"],
    )
    reason = in_language(facts["reason"]) or "–"
    return text.format(task=name_of(facts), n=facts["errors"], reason=reason)


TASK_ERRORS = Condition(
    "task_errors",
    _("task with errors"),
    Severity.WARNING,
    _had_errors,
    _errors_sentence,
    _errors_of_task,
    urgency=30,
    rows=lambda: [Task.objects.filter(outcome=Outcome.FINISHED_WITH_ERRORS)],
)


# -- tasks that run --------------------------------------------------------------------------------


def _running(
    kind: str, task: RunningTask, since: datetime, value: float | None = None, **facts: Any
) -> Alarm:
    known = {"spider": task.spider, "task": task.number, **facts}
    return Alarm(kind, str(task.number), since, known, value, spider=task.spider, task=task.number)


def _uncounted(view: ServiceView) -> Iterator[Unknown]:
    """The tasks that the frontier does not know, as while it is rebuilt."""
    return (Unknown(str(task.number)) for task in view.tasks if task.counts is None)


def _many_errors(view: ServiceView) -> Iterator[Alarm | Unknown]:
    for task in view.tasks:
        counts = task.counts
        if counts is None:
            continue
        pages = counts.nf + counts.errors
        share = 100 * counts.errors / max(pages, 1)
        if pages >= MIN_PAGES and share >= view.floor("error_share"):
            facts = {"percent": round(share), "pages": pages}
            yield _running("error_share", task, view.now, float(round(share)), **facts)
    yield from _uncounted(view)


def _share_sentence(facts: Facts) -> str:
    # xgettext:no-python-format
    text = gettext("{task}: {percent} % of {pages} pages so far are errors.")
    return text.format(task=name_of(facts), percent=facts["percent"], pages=facts["pages"])


ERROR_SHARE = Condition(
    "error_share",
    _("errors in a running task"),
    Severity.WARNING,
    _many_errors,
    _share_sentence,
    _errors_of_task,
    Threshold(20, _("percent"), 0.1, 100),
    urgency=20,
)


def _parked(view: ServiceView) -> Iterator[Alarm | Unknown]:
    for task in view.tasks:
        if task.counts is not None and task.counts.parked > 0:
            yield _running("parked", task, view.now, requests=task.counts.parked)
    yield from _uncounted(view)


def _parked_sentence(facts: Facts) -> str:
    text = ngettext(
        "{task}: {n} request is parked, because no running code can take it.",
        "{task}: {n} requests are parked, because no running code can take them.",
        facts["requests"],
    )
    return text.format(task=name_of(facts), n=facts["requests"])


PARKED = Condition(
    "parked",
    _("requests parked"),
    Severity.WARNING,
    _parked,
    _parked_sentence,
    page_of_task,
    urgency=50,
)


class Silence:
    """Finds tasks that should progress and do not. It remembers their counters, so a new leader
    counts from its own start, except for alerts found before: ``known``, tasks and since when."""

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


def _silent(view: ServiceView) -> Iterator[Alarm | Unknown]:
    """A task that the gate keeps back is not silent. Raises redis.RedisError."""
    silence = view.memory.setdefault("silent", Silence())
    began = Alert.objects.filter(OPEN, kind="silent").values_list("subject", "since")
    known = {int(task): at for task, at in began} if view.tasks else {}
    since = silence.look(view.tasks, known, view.now)
    found = [
        _running("silent", task, since[task.number], round(minutes, 1))
        for task in view.tasks
        if task.number in since
        and (minutes := view.minutes_since(since[task.number])) >= view.least["silent"]
    ]
    silent = {one.task for one in found}
    counts = {task.number: task.counts for task in view.tasks if task.number in silent}
    meant = view.frontier.waits.of(counts)
    yield from (one for one in found if one.task not in meant)
    yield from _uncounted(view)


def _silent_sentence(facts: Facts) -> str:
    text = gettext("{task} has requests to fetch, and none has ended for a while.")
    return text.format(task=name_of(facts))


SILENT = Condition(
    "silent",
    _("silent task"),
    Severity.SEVERE,
    _silent,
    _silent_sentence,
    page_of_task,
    Threshold(10, _("minutes"), 0.5, 10_080),
    urgency=60,
)
