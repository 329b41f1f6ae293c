"""Limits of a task that are changed while it runs: delay, concurrency and page limit."""

from __future__ import annotations

import math
from typing import Any, Literal

from django.db import transaction
from redis import RedisError

from crawlframe.errors import CrawlframeError, FieldError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.wording import error_text
from crawlservice.accounts import journal
from crawlservice.connections.frontier import frontier
from crawlservice.connections.lookup import find
from crawlservice.models import Task
from crawlservice.tasks.overrides import check, may_be_rough
from crawlservice.tasks.stored_limits import limits_of
from crawlservice.tasks.submit import RedisNotUpdated, WrongState, published

AUTO: Literal["auto"] = "auto"
MAX_DELAY = 86_400.0  # seconds
MAX_CONCURRENCY = 10_000
MAX_PAGES = 10**12
Delay = float | Literal["auto"]


class BadLimit(FieldError):
    """``field`` has a value that no limit can have."""


def change_limits(
    task_id: int,
    who: dict[str, Any],
    *,
    delay: Delay | None = None,
    concurrency: int | None = None,
    page_limit: int | None = None,
) -> Task:
    """Changes the given limits, and returns the task. ``delay``: seconds between two requests to a
    host, or "auto"; ``page_limit`` 0: none. Requests that the page limit has left out before stay
    left out. ``who``: the caller, for the journal.

    Raises BadLimit, NotFound, WrongState, RedisNotUpdated after it was recorded, and as submit
    for settings that the user may not give a task."""
    given = _checked(delay, concurrency, page_limit)
    with transaction.atomic():
        task = find(Task.objects.select_for_update().defer("seeds"), "task", task_id)
        if task.state not in (Task.State.RUNNING, Task.State.PAUSED):
            raise WrongState(
                f"task {task_id} is {task.state}; only limits of tasks that are running or paused "
                "can be changed"
            )
        if not may_be_rough(user := who.get("user")):  # as at submission
            check(published(task.spider), {**task.overrides, **given}, user)
        if task.published_limits is None:
            task.published_limits = dict(task.settings)
        task.settings |= given
        if delay is not None:
            task.settings |= _delay_of(task.published_limits, delay)
        task.limits_unsent = True
        task.save(update_fields=["settings", "published_limits", "limits_unsent"])
        journal.record("change limits", task=task, **who, **given)
        transaction.on_commit(lambda: _send_now(task_id))
    return task


def send_limits(there: Frontier, task_id: int) -> None:
    """Makes the limits in Redis equal to the database's, however many processes change them at a
    time. Raises redis.RedisError, FrontierError and django.db.Error."""
    rows = Task.objects.defer("seeds").filter(pk=task_id)
    while (task := rows.first()) is not None:
        there.set_limits(task_id, limits_of(task))
        with transaction.atomic():
            now = rows.select_for_update().first()
            if now is None or now.settings == task.settings:
                rows.update(limits_unsent=False)
                return


def _send_now(task_id: int) -> None:
    try:
        send_limits(frontier(), task_id)
    except (RedisError, CrawlframeError) as error:
        why = error_text(error) if isinstance(error, RedisError) else str(error)
        raise RedisNotUpdated(
            f"the limits of task {task_id} are changed in the database, but not in Redis. {why}. "
            "Nothing must be repeated: the nodes update Redis when it is back"
        ) from None


def _checked(
    delay: Delay | None, concurrency: int | None, page_limit: int | None
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if delay is not None:
        if delay != AUTO and not (math.isfinite(delay) and 0 <= delay <= MAX_DELAY):
            text = f"delay is {delay}; it must be from 0 to {MAX_DELAY:.0f} seconds, or auto"
            raise BadLimit("delay", text)
        given["delay"] = delay
    if concurrency is not None:
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            text = f"concurrency is {concurrency}; it must be from 1 to {MAX_CONCURRENCY}"
            raise BadLimit("concurrency", text)
        given["concurrency"] = concurrency
    if page_limit is not None:
        if not 0 <= page_limit <= MAX_PAGES:
            text = f"page_limit is {page_limit}; it must be a number of pages, or 0 for no limit"
            raise BadLimit("page_limit", text)
        given["page_limit"] = page_limit
    if not given:
        raise BadLimit("delay", "give a delay, a concurrency or a page_limit")
    return given


def _delay_of(published: dict[str, Any], delay: Delay) -> dict[str, Any]:
    """The settings of a delay as they are stored: in milliseconds; with an adaptive delay, the
    author's minimum."""
    if delay == AUTO:
        least = published.get("delay", 0) if published.get("adaptive") else 0
        return {"delay": least, "adaptive": True}
    return {"delay": round(1000 * delay), "adaptive": False}
