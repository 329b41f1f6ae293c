"""Bulk retry: errors of a spider are run again, over all its tasks that have ended. The leading
steward does it, or the command: a task is a step, which is done whole or not at all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DatabaseError, transaction
from django.db.models import Max, Q
from django.db.models.functions import Now

from crawlframe.errors import ArgumentError
from crawlservice.accounts.journal import record
from crawlservice.connections.contained import contained
from crawlservice.connections.lookup import NotFound, find
from crawlservice.models import BulkRetry, ErrorGroup, Page, Task
from crawlservice.tasks import spider_switch
from crawlservice.tasks.results import error_groups
from crawlservice.tasks.results.task_rows import all_before
from crawlservice.tasks.retry import ENDED, retry
from crawlservice.tasks.submit import WrongState

MAX_ERRORS = 200_000  # of one bulk retry
MAX_TASKS = 10_000
ROUND = 1.0  # seconds of one round of the steward
MAX_SKIPPED = 50  # skipped tasks that are named


class WantedErrors(NamedTuple):
    """The errors wanted: of this spider; with this reason, of this group, and since this time, if
    given."""

    spider: str
    reason: str = ""
    group: int | None = None
    since: datetime | None = None


class RetryExtent(NamedTuple):
    """The extent of a bulk retry: errors by task, in the order of the tasks. ``active``: tasks that
    have not ended, and have ``active_errors``; they are left out."""

    tasks: list[tuple[int, int]]
    active: int
    active_errors: int
    first_page: int
    last_page: int

    @property
    def errors(self) -> int:
        return sum(errors for _, errors in self.tasks)


def extent(wanted: WantedErrors) -> RetryExtent:
    """The extent of a retry. Raises ArgumentError if that is too much, or the group is not one of
    the spider."""
    groups = _groups(wanted)
    first = 0 if wanted.since is None else all_before(Page, wanted.since)
    last = Page.objects.aggregate(pk=Max("pk"))["pk"] or 0
    between = _between(first, last, wanted.since)
    found = error_groups.pages_of(groups).filter(between).values_list("task_id", flat=True)
    errors = Counter(found[: MAX_ERRORS + 1])
    if errors.total() > MAX_ERRORS or len(errors) > MAX_TASKS:
        raise ArgumentError(
            f"these are more than {MAX_ERRORS:,} errors, or of more than {MAX_TASKS:,} tasks; "
            "choose one reason, or a later time"
        )
    ended = set(_ended([*errors]))
    active = [pk for pk in errors if pk not in ended]
    return RetryExtent(
        sorted((pk, n) for pk, n in errors.items() if pk in ended),
        len(active),
        sum(errors[pk] for pk in active),
        first,
        last,
    )


def start(wanted: WantedErrors, who: dict[str, Any]) -> BulkRetry:
    """Records a bulk retry, which is done by ``work`` or ``step``. ``who``: as for
    ``journal.record``. Raises SpiderDisabled, WrongState if there is nothing to retry, and as
    ``extent``."""
    spider_switch.check(wanted.spider)
    found = extent(wanted)
    if not found.tasks:
        still = f"; {found.active} tasks with such errors have not ended" if found.active else ""
        raise WrongState(f"spider {wanted.spider!r} has no such errors to retry{still}")
    user = who.get("user")
    with transaction.atomic():
        row = BulkRetry.objects.create(
            spider=wanted.spider,
            reason=wanted.reason,
            group=wanted.group,
            since=wanted.since,
            tasks=found.tasks,
            first_page=found.first_page,
            last_page=found.last_page,
            all_tasks=len(found.tasks),
            all_errors=found.errors,
            user=user if user is not None and user.is_authenticated else None,
        )
        given = {name: value for name, value in _told(wanted).items() if value}
        record("retry errors", **who, **given, retry=row.pk, errors=found.errors)
    return row


def stop(pk: int, who: dict[str, Any]) -> BulkRetry:
    """Ends a bulk retry: the tasks that are left are not retried. Raises NotFound and
    WrongState."""
    row = get(pk)
    rows = BulkRetry.objects.filter(pk=pk, state=BulkRetry.State.RUNNING)
    if not rows.update(state=BulkRetry.State.STOPPED, finished_at=Now()):
        raise WrongState(f"retry {pk} is {row.state} already")
    record("stop retry", **who, retry=pk, spider=row.spider)
    return get(pk)


def get(pk: int) -> BulkRetry:
    """Raises NotFound."""
    return find(BulkRetry.objects.select_related("user"), "retry", pk)


def work(still_here: Callable[[], None] = lambda: None, seconds: float = ROUND) -> None:
    """Does steps of running bulk retries, for some seconds. Raises FrontierError and
    django.db.Error; the rest is done in a later round."""
    until = time.monotonic() + seconds
    running = BulkRetry.objects.filter(state=BulkRetry.State.RUNNING).order_by("pk")
    for pk in running.values_list("pk", flat=True):
        with contained(f"bulk retry {pk}"):
            while time.monotonic() < until and step(pk):
                still_here()


def step(pk: int) -> bool:
    """Retries the next task; returns whether there are more. Raises FrontierError, and
    django.db.Error: then nothing was changed."""
    try:
        return _step(pk)
    except Exception as error:
        with suppress(DatabaseError):  # the connection may be broken
            BulkRetry.objects.filter(pk=pk).update(problem=" ".join(str(error).split()))
        raise


@transaction.atomic
def _step(pk: int) -> bool:
    row = BulkRetry.objects.select_for_update().filter(pk=pk).first()
    if row is None or row.state != BulkRetry.State.RUNNING:
        return False
    if row.left:
        _retry_next(row)
        row.position += 1
    row.problem = ""
    if not row.left:
        row.state, row.finished_at = BulkRetry.State.DONE, Now()
    row.save(
        update_fields=(
            *("position", "retried_tasks", "retried_errors", "skipped", "skipped_tasks"),
            *("problem", "state", "finished_at"),
        )
    )
    return row.left > 0


def _retry_next(row: BulkRetry) -> None:
    task, _errors = row.tasks[row.position]
    wanted = WantedErrors(row.spider, row.reason, row.group)
    chosen = Q(error_group__in=_groups(wanted))
    chosen &= _between(row.first_page, row.last_page, row.since)
    try:
        with transaction.atomic():
            retried = retry(task, only=chosen)
    except (NotFound, WrongState, spider_switch.SpiderDisabled) as error:
        row.skipped_tasks += 1
        if len(row.skipped) < MAX_SKIPPED:
            row.skipped.append([task, str(error)])
        return
    row.retried_tasks += 1
    row.retried_errors += retried
    by = {"user": row.user} if row.user_id else {"command": True}
    record("retry", task=task, requests=retried, retry=row.pk, **by)


def _between(first: int, last: int, since: datetime | None) -> Q:
    between = Q(pk__gt=first, pk__lte=last)
    return between if since is None else between & Q(created_at__gte=since)


def _groups(wanted: WantedErrors) -> list[int]:
    rows = error_groups.matching(wanted.spider, wanted.reason)
    if wanted.group is not None:
        rows = rows.filter(pk=wanted.group)
        if not rows.exists() and ErrorGroup.objects.filter(pk=wanted.group).exists():
            raise ArgumentError(
                f"group {wanted.group} is not one of spider {wanted.spider!r} and this reason"
            )
    return [*rows.values_list("pk", flat=True)]


def _ended(tasks: list[int]) -> list[int]:
    """The tasks that can be retried."""
    rows = Task.objects.filter(pk__in=tasks, state__in=ENDED, unwritten=None)
    return [*rows.values_list("pk", flat=True)]


def _told(wanted: WantedErrors) -> dict[str, Any]:
    since = wanted.since and wanted.since.isoformat()
    return {**wanted._asdict(), "since": since}
