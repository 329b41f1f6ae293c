"""Editing of schedules by programs, checked as the form of the admin checks it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from crawlframe.errors import ArgumentError, FieldError
from crawlframe.items.encode import clean_text
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.journal import record
from crawlservice.connections.lookup import find
from crawlservice.models import Schedule
from crawlservice.scheduling import schedules
from crawlservice.scheduling.timing import LEAST_EVERY, too_often
from crawlservice.tasks import labels, overrides, submit
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.secrets import has_secrets, readable, restored, sealed

ROUTES = ("proxy", "downloader")  # settings that decide through which hands a request goes
TIMING = frozenset({"cron", "every", "timezone", "enabled"})


class BadSchedule(FieldError):
    """A field of a schedule is wrong. ``field`` says which."""


def get(pk: int) -> Schedule:
    """Raises NotFound."""
    return find(Schedule.objects.all(), "schedule", pk)


def create(given: Mapping[str, Any], who: dict[str, Any]) -> Schedule:
    """Makes a schedule of fields of the model. ``who``: as for ``journal.record``. Raises
    BadSchedule, BadTiming, UnknownSpider, ArgumentError and FrontierError."""
    row = Schedule(user=who.get("user"))
    _save(row, given, who, "add schedule")
    return get(row.pk)


def change(pk: int, given: Mapping[str, Any], who: dict[str, Any]) -> Schedule:
    """Changes these fields; the mask of a secret argument leaves it as it was. Raises
    NotFound, and as ``create``."""
    row = get(pk)
    if given:
        _save(row, given, who, "change schedule")
    return row


def switch(pk: int, on: bool, who: dict[str, Any]) -> Schedule:
    """Enables or disables a schedule. Raises NotFound and BadTiming."""
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
    """Deletes a schedule and its runs; their tasks stay. Raises NotFound."""
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
        _check_spider(row, before, given, who.get("user"))
    if "labels" in given:
        row.labels = labels.check(row.labels)
    schedules.timing_of(row)  # raises BadTiming
    if row.every is not None and row.every < LEAST_EVERY and "every" in given:
        raise too_often()
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


def set_arguments(
    row: Schedule, given: dict[str, Any], settings: Any, editor: Any, info: SpiderInfo | None
) -> None:
    """Gives a schedule other arguments, whose Secrets are its present ones, and records their user;
    ``row`` still has its old overrides. Raises ArgumentError, also if a secret of another user
    would go with other values than before: the user that chooses these could receive it."""
    checked = spider_arguments.check(info, given, from_text=False) if info else given
    if not has_secrets(given):
        row.user = editor
    elif row.user is None or row.user != editor:
        known = info.arguments.get("properties", {}) if info else {}
        own = {name: kind["default"] for name, kind in known.items() if "default" in kind}
        same = own | checked == own | readable(row.arguments)
        if not same or any(row.overrides.get(name) != settings.get(name) for name in ROUTES):
            name = next(name for name, value in given.items() if has_secrets(value))
            text = gettext(
                "argument {name!r}: enter it again: another user entered it, for other arguments "
                "or another proxy"
            )
            raise ArgumentError(text.format(name=name))
    row.arguments = sealed(checked)


def _check_spider(row: Schedule, before: Schedule, given: Mapping[str, Any], user: Any) -> None:
    """Checks arguments and settings against the spider, and seals its secrets."""
    info = submit.published(row.spider)
    known = readable(before.arguments) if row.spider == before.spider else {}
    wanted = restored(given["arguments"], known) if "arguments" in given else known
    set_arguments(before, wanted, row.overrides, user, info)
    row.arguments, row.user = before.arguments, before.user
    try:
        overrides.check(info, row.overrides, user)
    except ArgumentError as error:
        raise BadSchedule("settings", str(error)) from None
