"""Evaluation: a task is read and judged, while it runs by the leading steward, and at its end by
the process that ends it."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError, OperationalError, transaction

from crawlservice.models import Event, Finding, ParsedPage, Profile, Task
from crawlservice.quality.norms import History, Totals, forget_old, history_of, totals_of
from crawlservice.quality.outcome import record, tell, worse
from crawlservice.quality.reader import Bounds, Reading, expected_of, new_profile, read
from crawlservice.quality.rules import deviations

log = logging.getLogger(__name__)

AT_END = 1_000  # items, and pages, that are read in the transaction that ends a task
SECONDS_AT_END = 0.3  # for all tasks that end together


class Ended(NamedTuple):
    """How a task ends: the outcome, the reason, and an unsaved event about new findings."""

    outcome: str
    reason: str
    event: Event | None = None


def at_end(task: Task, outcome: str, reason: str, totals: Totals, until: float) -> Ended:
    """Judges a task in the transaction that ends it, if the unread rows can be read by ``until``,
    in time.monotonic(). If not, or if judging fails, the leading steward does it later. ``outcome``
    and ``reason``: without findings. Raises django.db.Error if the connection is lost."""
    if not has_quality(task, totals.items):
        return Ended(outcome, reason)
    if is_changing(task):
        _leave(task)
        return Ended(outcome, reason)
    try:
        with transaction.atomic():
            reading = read(task, None, until, AT_END, totals.items)
            if reading.save() and reading.is_complete:
                return _finish(task, reading, history_of(task), outcome, reason, totals)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("the quality of task %d could not be judged at its end", task.pk)
        _leave(task)
    return Ended(outcome, reason)


def has_quality(task: Task, items: int) -> bool:
    """Whether its items can be compared with other runs: the items of a task that only fetches
    come later, a task that parses kept pages has none of its own, and a round of a watch visits
    some pages only."""
    if task.watch_id is not None:
        return False
    return task.reparse is None and not (task.settings.get("fetch_only") and not items)


def is_changing(task: Task) -> bool:
    """Whether a task that has not ended yet has replaced items of this one. When it ends, this one
    is judged anew; until then, only some of the items are there. Raises django.db.Error."""
    parsing = Task.objects.filter(reparse__isnull=False, state__in=Task.ACTIVE)
    mine = {"task": task.pk}.items(), {"spider": task.spider}.items()
    found = [
        pk
        for pk, reparse in parsing.values_list("pk", "reparse")
        if reparse and not reparse.get("dry_run") and any(one <= reparse.items() for one in mine)
    ]
    rows = ParsedPage.objects.filter(ParsedPage.DIFFERS, task__in=found, source_task=task.pk)
    return bool(found) and rows.exists()


def read_again(task: Task) -> None:
    """Lets the leading steward read a running task from the start, because its items were replaced:
    a profile cannot forget some. Raises django.db.Error."""
    Profile.objects.filter(task=task.pk).delete()


def begin_again(task: Task) -> None:
    """Lets the leading steward read and judge a task anew that has ended, because its items were
    replaced. Call it in a transaction. Raises django.db.Error."""
    Finding.objects.filter(task=task.pk).delete()
    Profile.objects.filter(task=task.pk).delete()
    if has_quality(task, task.items):
        Profile.objects.bulk_create([new_profile(task)], ignore_conflicts=True)


def _leave(task: Task) -> None:
    """Leaves a task to the leading steward, which finds it by its profile. A new profile was rolled
    back with the judgement."""
    try:
        with transaction.atomic():
            Profile.objects.bulk_create([new_profile(task)], ignore_conflicts=True)
    except (OperationalError, InterfaceError):
        raise
    except DatabaseError as error:
        log.warning("the quality of task %d is not judged later either: %s", task.pk, error)


def while_it_runs(
    task: Task,
    history: History,
    totals: Totals,
    bounds: Bounds,
    until: float,
    most: int,
    admitted: int = 0,
) -> None:
    """Reads some of a running task and judges it. ``admitted``: the pages that it will have, as far
    as they are known. Raises django.db.Error."""
    reading = read(task, bounds, until, most, totals.items)
    expect = expected_of(task)
    if not reading.is_new and not expect.within:
        return
    found = deviations(
        reading.run, history.norms, expect, totals=totals, ended=False, expected_pages=admitted
    )
    with transaction.atomic():
        # In the order that the end of a task uses for its lock; pages are committed meanwhile.
        locked = Task.objects.select_for_update(no_key=True).filter(state__in=Task.ACTIVE)
        if not locked.filter(pk=task.pk).exists() or not reading.save():
            return
        profile = reading.profile
        if profile.judged:  # it was retried
            profile.judged = profile.good = False
        findings = record(task, reading.run, history, found, ended=False) if found else []
        event = tell(task, profile, findings, expect.action)
        profile.save(update_fields=["judged", "good", "action_due"])
        if event is not None:
            event.save()


def seconds_of(task: Task, until: datetime | None) -> float | None:
    """Seconds for which it has worked, without those paused or ended before a retry; None if they
    are unknown, as of a task that an older release retried."""
    if until is None or (task.retries and not task.idle):
        return None
    paused = (until - task.paused_at).total_seconds() if task.paused_at else 0
    return (until - task.created_at).total_seconds() - task.idle - max(0, paused)


def after_end(task: Task, until: float, most: int) -> None:
    """Reads more of a task whose end was not judged, and judges it when all is read. Raises
    django.db.Error."""
    reading = read(task, None, until, most, task.items)
    with transaction.atomic():
        task = Task.objects.select_for_update(no_key=True).defer("seeds").get(pk=task.pk)
        if task.state in Task.ACTIVE or not reading.save() or not reading.is_complete:
            return
        totals = totals_of(task, seconds_of(task, task.finished_at))
        ended = _finish(task, reading, history_of(task), task.outcome, task.reason, totals)
        if (ended.outcome, ended.reason) != (task.outcome, task.reason):
            Task.objects.filter(pk=task.pk).update(outcome=ended.outcome, reason=ended.reason)
        if ended.event is not None:
            ended.event.save()


def _finish(
    task: Task, reading: Reading, history: History, outcome: str, reason: str, totals: Totals
) -> Ended:
    """The final judgement. A cancelled task is not compared: it lacks the cancelled pages."""
    profile, run = reading.profile, reading.run
    findings: list[Finding] = []
    event = None
    if outcome != Task.Outcome.CANCELLED:
        expect = expected_of(task)
        found = deviations(run, history.norms, expect, totals=totals, ended=True)
        findings = record(task, run, history, found, ended=True)
        outcome, reason = worse(outcome, reason, findings)
        event = tell(task, profile, findings, expect.action)
        if event is not None:
            event.outcome = outcome
    profile.seconds, profile.judged = totals.seconds, True
    profile.good = outcome in Task.COMPLETED and not findings
    profile.save(update_fields=["seconds", "judged", "good", "action_due"])
    forget_old(profile)
    return Ended(outcome, reason, event)
