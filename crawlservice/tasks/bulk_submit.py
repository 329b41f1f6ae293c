"""Submissions by programs: one or many tasks, all or none, and only once even if sent twice."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.crypto import salted_hmac

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.spider.spider import SpiderInfo
from crawlservice.connections import clock
from crawlservice.models import Submission, Task
from crawlservice.tasks.submit import Prepared, RedisNotUpdated, published, start_all, submit

KEY_AGE = timedelta(hours=24)  # how long a key is kept; then it is pruned

log = logging.getLogger(__name__)


class WantedTask(NamedTuple):
    """A task to submit. ``from_text``: the arguments are text, as people write them."""

    spider: str
    arguments: dict[str, Any]
    priority: int = 0
    settings: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    from_text: bool = False


class KeyReused(CrawlframeError):
    """This Idempotency-Key was already used with a different request body; use a new key."""


class Refused(CrawlframeError):
    """One of several tasks cannot be submitted, so none was. ``place``: which one, from 0."""

    def __init__(self, place: int, cause: CrawlframeError) -> None:
        super().__init__(f"task {place} of the list: {cause}")
        self.place, self.cause = place, cause


def submit_many(
    wanted: Sequence[WantedTask], user: User, recorded: Callable[[Task], None]
) -> list[Task]:
    """Creates and starts all tasks, or none; returns them. ``recorded`` is called with each, in the
    transaction that makes them. Raises Refused, UnknownSpider and FrontierError."""
    known = _published(wanted)
    with _redis_later(), transaction.atomic():
        tasks = _submit(wanted, known, user, recorded)
    return tasks


def submit_once(
    key: str,
    wanted: Sequence[WantedTask],
    user: User,
    recorded: Callable[[Task], None],
) -> tuple[list[Task], bool]:
    """The same, once for each key of a user: repeating it returns the same tasks, as far as they
    still exist. Returns them, and whether they are new. Raises KeyReused too."""
    # With the installation's key: a short secret could be guessed from a bare digest.
    content = json.dumps(wanted, sort_keys=True)
    digest = salted_hmac("crawlframe submission", content, algorithm="sha256").hexdigest()
    if (before := _before(user, key, digest)) is not None:
        return before, False
    known = _published(wanted)
    try:
        with _redis_later(), transaction.atomic():
            tasks = _submit(wanted, known, user, recorded)
            # Another transaction with the same key waits here until ours ends, and is rolled back.
            numbers = [task.pk for task in tasks]
            Submission.objects.create(user=user, key=key, digest=digest, tasks=numbers)
    except IntegrityError:
        before = _before(user, key, digest)
        if before is None:
            raise
        return before, False
    return tasks, True


def _published(wanted: Sequence[WantedTask]) -> dict[str, SpiderInfo]:
    return {spider: published(spider) for spider in {one.spider for one in wanted}}


def _submit(
    wanted: Sequence[WantedTask],
    known: Mapping[str, SpiderInfo],
    user: User,
    recorded: Callable[[Task], None],
) -> list[Task]:
    tasks: list[Task] = []
    batch: list[Prepared] = []
    for place, one in enumerate(wanted):
        try:
            task = submit(
                one.spider,
                one.arguments,
                priority=one.priority,
                from_text=one.from_text,
                info=known[one.spider],
                user=user,
                settings=one.settings,
                labels=one.labels,
                batch=batch,
            )
        except ArgumentError as error:
            raise Refused(place, error) if len(wanted) > 1 else error from None
        tasks.append(task)
    start_all(batch)
    for task in tasks:
        recorded(task)
    return tasks


@contextmanager
def _redis_later() -> Iterator[None]:
    """Tasks that did not get into Redis count as submitted: the nodes add them later."""
    try:
        yield
    except RedisNotUpdated as error:
        log.warning("%s", error)


def _before(user: User, key: str, digest: str) -> list[Task] | None:
    """The tasks that were submitted with this key, or None. Raises KeyReused."""
    row = Submission.objects.filter(user=user, key=key).first()
    if row is None:
        return None
    if row.created_at < clock.now() - KEY_AGE:
        row.delete()
        return None
    if row.digest != digest:
        raise KeyReused
    tasks = Task.objects.defer("seeds").select_related("user").in_bulk(row.tasks)
    return [tasks[number] for number in row.tasks if number in tasks]
