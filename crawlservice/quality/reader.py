"""Reader: adds items and pages of a task to its profile, each once. The cursors are stored with the
profile, in one transaction, so the next reader continues at their position."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Case, F, TextField, When
from django.db.models.functions import Cast, Length

from crawlframe.base.expect import Expect, expectation
from crawlframe.request.request import END_URL, ROOT_URL
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.models import Item, Page, Profile, Task
from crawlservice.quality.run import RunStats, decode, encode
from crawlservice.tasks.results.task_rows import of_task

STEP = 100  # rows of one query
MAX_CHARS = 200_000  # characters of an item; larger ones are not looked at
BACKLOG = 10_000  # unread items from which fewer are looked at
MOST_STRIDE = 1024
PAGE = ("pk", "url", "status", "items", "state", "reason", "version", "created_at")
NO_PAGES = (ROOT_URL, END_URL)


class Bounds(NamedTuple):
    """The highest numbers up to which everything is visible that ever will be."""

    item: int
    page: int


@dataclass
class Reading:
    """A profile and the content read beyond it. ``ended``: the task has. ``is_complete``: there
    was no more to read."""

    profile: Profile
    run: RunStats
    last_item: int
    last_page: int
    ended: bool
    is_complete: bool = False

    @property
    def is_new(self) -> bool:
        return (self.last_item, self.last_page) != (self.profile.last_item, self.profile.last_page)

    def save(self) -> bool:
        """Stores it, unless another process has read on meanwhile; returns whether it did. Call it
        in a transaction, before its findings are written. Raises django.db.Error."""
        profile = self.profile
        if profile.pk is None:
            Profile.objects.bulk_create([profile], ignore_conflicts=True)
        rows = Profile.objects.filter(task=profile.task_id)
        stored = rows.filter(last_item=profile.last_item, last_page=profile.last_page).update(
            content=encode(self.run.settled() if self.is_complete and self.ended else self.run),
            coverage=self.run.content().coverage,
            last_item=self.last_item,
            last_page=self.last_page,
        )
        if stored:
            self.profile = rows.defer("content").get()
        return bool(stored)


def expected_of(task: Task) -> Expect:
    """The expectations of the task's spider. Rules of a newer release are ignored."""
    try:
        return expectation(task.expect) or Expect()
    except (ValueError, TypeError):
        return Expect()


def new_profile(task: Task) -> Profile:
    """The empty profile of a task, unsaved."""
    return Profile(task=task, spider=task.spider, arguments_hash=task.arguments_hash, content=b"")


def read(task: Task, bounds: Bounds | None, until: float, most: int, total: int) -> Reading:
    """Reads further rows of a task, without storing anything. ``bounds``: None if the task has
    ended, so that all its rows are there. ``until``: time.monotonic() at which no further step
    starts. ``most``: rows of each kind. ``total``: approximate number of items; if far more are
    left than can be read, only some are read. Raises django.db.Error."""
    profile = Profile.objects.filter(task=task).first() or new_profile(task)
    run = decode(profile.content)
    seen = run.stride * run.items_read
    if total - seen > BACKLOG * run.stride and run.stride < MOST_STRIDE:
        run.stride *= 2
    reading = Reading(profile, run, profile.last_item, profile.last_page, bounds is None)
    pages = _read_pages(reading, bounds and bounds.page, until, most)
    items = _read_items(reading, expected_of(task).unique, bounds and bounds.item, until, most)
    reading.is_complete = pages and items
    return reading


def _read_items(
    reading: Reading, unique: Collection[str], bound: int | None, until: float, most: int
) -> bool:
    run = reading.run
    text = Cast("data", TextField())
    rows = Item.objects.annotate(text=text, size=Length(text))
    if run.stride > 1:  # spread evenly, whatever the order of the items on a page
        rows = rows.alias(place=F("pk") * 40503 % 65536).filter(place__lt=65536 // run.stride)
    rows = rows.annotate(short=Case(When(size__lte=MAX_CHARS, then="text")))
    if bound is not None:
        rows = rows.filter(pk__lte=bound)
    for _ in range(0, most, STEP):
        found = of_task(rows, reading.profile.task_id, after=reading.last_item)
        some = [*found.values_list("pk", "short", "version", "created_at")[:STEP]]
        for number, data, version, at in some:
            with suppress(
                ValueError, RecursionError
            ):  # a number of thousands of digits, or too deep
                if data is not None:
                    run.add_item(json.loads(data), version, at.timestamp(), unique)
            reading.last_item = number
        if len(some) < STEP:
            reading.last_item = max(reading.last_item, bound or 0)
            return True
        if time.monotonic() >= until:
            break
    return False


def _read_pages(reading: Reading, bound: int | None, until: float, most: int) -> bool:
    run = reading.run
    rows = Page.objects.all() if bound is None else Page.objects.filter(pk__lte=bound)
    for _ in range(0, most, STEP):
        found = of_task(rows, reading.profile.task_id, after=reading.last_page)
        some = [*found.values_list(*PAGE)[:STEP]]
        for number, url, status, items, state, reason, version, at in some:
            if url not in NO_PAGES and reason not in NO_ERRORS:
                failed = state == Page.State.ERROR
                run.add_page(url, status, items, failed=failed, version=version, at=at.timestamp())
            reading.last_page = number
        if len(some) < STEP:
            reading.last_page = max(reading.last_page, bound or 0)
            return True
        if time.monotonic() >= until:
            break
    return False
