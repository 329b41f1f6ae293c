"""Editing of schedules by programs, checked as the form of the admin checks it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from django.db import IntegrityError, transaction

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.items import clean_text
from crawlservice.accounts.journal import record
from crawlservice.models import Schedule
from crawlservice.scheduling import schedules
from crawlservice.tasks import arguments, labels, overrides, submit
from crawlservice.tasks.secret_arguments import owner, readable, restored, sealed

TIMING = frozenset({"cron", "every", "timezone", "enabled"})


class BadSchedule(CrawlframeError):
    """A field of a schedule is wrong. ``field`` says which."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class UnknownSchedule(CrawlframeError):
    """There is no schedule with this number."""


def get(pk: int) -> Schedule:
    """Raises UnknownSchedule."""
    row = Schedule.objects.filter(pk=pk).first()
    if row is None:
        raise UnknownSchedule(f"there is no schedule {pk}")
    return row


def create(given: Mapping[str, Any], who: dict[str, Any]) -> Schedule:
    """Makes a schedule of fields of the model. ``who``: as for ``journal.record``. Raises
    BadSchedule, BadTiming, UnknownSpider, ArgumentError and FrontierError."""
    row = Schedule(user=who.get("user"))
    _save(row, given, who, "add schedule")
    return get(row.pk)


def change(pk: int, given: Mapping[str, Any], who: dict[str, Any]) -> Schedule:
    """Changes these fields; the mask of a secret argument leaves it as it was. Raises
    UnknownSchedule, and what ``create`` raises."""
    row = get(pk)
    if given:
        _save(row, given, who, "change schedule")
    return row


def switch(pk: int, on: bool, who: dict[str, Any]) -> Schedule:
    """Enables or disables a schedule. Raises UnknownSchedule and BadTiming."""
    row = get(pk)
    if row.enabled == on:
        return row
    with transaction.atomic():
        row.enabled = on
        row.save(update_fields=["enabled"])
        schedules.plan(row)
        schedules.clear(row)
        verb = "enable schedule" if on else "disable schedule"
        record(verb, **who, schedule=row.name)
    return row


def delete(pk: int, who: dict[str, Any]) -> None:
    """Deletes a schedule and its runs; their tasks stay. Raises UnknownSchedule."""
    row = get(pk)
    row.delete()
    record("delete schedule", **who, schedule=row.name)


def _save(row: Schedule, given: Mapping[str, Any], who: dict[str, Any], verb: str) -> None:
    new = row.pk is None
    before = copy(row)
    for name, value in given.items():
        setattr(row, name, value)
    if clean_text(row.name) != row.name or not row.name.strip():
        raise BadSchedule("name", "the name must have characters that can be shown")
    if new or given.keys() & {"spider", "arguments", "overrides"}:
        _check_spider(row, given, before, who)
    if "labels" in given:
        row.labels = labels.check(row.labels)
    schedules.timing_of(row)  # raises BadTiming
    try:
        with transaction.atomic():
            if not new:  # the steward may have changed it meanwhile
                stored = Schedule.objects.select_for_update().only("next_at").get(pk=row.pk)
                row.next_at, row.problem, row.problem_since = stored.next_at, "", None
            row.save()
            if new or given.keys() & TIMING:
                schedules.plan(row)
            record(verb, **who, schedule=row.name, fields=sorted(given))
    except IntegrityError:
        raise BadSchedule("name", f"there is a schedule {row.name!r} already") from None


def _check_spider(
    row: Schedule, given: Mapping[str, Any], before: Schedule, who: dict[str, Any]
) -> None:
    """Checks arguments and settings against the spider, and seals its secrets."""
    info, user = submit.published(row.spider), who.get("user")
    known = readable(before.arguments) if row.spider == before.spider else {}
    wanted = restored(given["arguments"], known) if "arguments" in given else known
    checked = arguments.check(info, wanted, from_text=False)
    row.user_id = owner(
        wanted, checked, before, row.overrides, info.arguments, user.pk if user else None
    )
    row.arguments = sealed(checked)
    try:
        overrides.check(info, row.overrides, user)
    except ArgumentError as error:
        raise BadSchedule("settings", str(error)) from None
