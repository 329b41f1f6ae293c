"""Bulk retry: errors of a spider are run again, over all its tasks that have ended. The leading
steward does it, or the command: a task is a step, which is done whole or not at all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import F, Max, Q, QuerySet
from django.db.models.functions import Now
from redis import RedisError

from crawlframe.base.program import command
from crawlframe.errors import ArgumentError, CrawlframeError, FrontierError
from crawlframe.request.request import Admission, end_rid, pack_admissions, unpack_admissions
from crawlframe.run.outcome import CANCELLED, EXCLUDED, NO_ERRORS
from crawlservice.accounts.journal import record
from crawlservice.connections import clock
from crawlservice.connections.contained import contained
from crawlservice.connections.frontier import frontier
from crawlservice.models import BulkRetry, ErrorGroup, Finding, Item, Page, Profile, Task
from crawlservice.tasks import spider_switch
from crawlservice.tasks.progress import budgets, layers, stats
from crawlservice.tasks.results import error_groups
from crawlservice.tasks.results.task_rows import all_before
from crawlservice.tasks.submit import UnknownTask, WrongState, get_task

ENDED = (Task.State.FINISHED, Task.State.CANCELLED)
MAX_ERRORS = 200_000  # of one bulk retry
MAX_TASKS = 10_000
ROUND = 1.0  # seconds of one round of the steward
MAX_SKIPPED = 50  # skipped tasks that are named


class UnknownRetry(CrawlframeError):
    """There is no bulk retry with this number."""


class WantedErrors(NamedTuple):
    """Which errors: of this spider; with this reason, of this group, and since this time, if
    given."""

    spider: str
    reason: str = ""
    group: int | None = None
    since: datetime | None = None


class RetryExtent(NamedTuple):
    """What a bulk retry would run again: errors by task, in the order of the tasks. ``active``:
    tasks that have not ended, and have ``active_errors``; they are left out."""

    tasks: list[tuple[int, int]]
    active: int
    active_errors: int
    first_page: int
    last_page: int

    @property
    def errors(self) -> int:
        return sum(errors for _, errors in self.tasks)


def extent(wanted: WantedErrors) -> RetryExtent:
    """How much it would be. Raises ArgumentError if that is too much, or the group is not one of
    the spider."""
    groups = _groups(wanted)
    first = 0 if wanted.since is None else all_before(Page, wanted.since)
    last = Page.objects.aggregate(pk=Max("pk"))["pk"] or 0
    between = _between(first, last, wanted.since)
    errors = Counter[int]()
    for rows in (error_groups.pages_of(groups), _ungrouped(wanted)):
        found = rows.filter(between).values_list("task_id", flat=True)
        errors.update(found[: max(0, MAX_ERRORS + 1 - errors.total())])
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
    ``journal.record``. Raises SpiderDisabled, WrongState if there is nothing to retry, and what
    ``extent`` raises."""
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
    """Ends a bulk retry: the tasks that are left are not retried. Raises UnknownRetry and
    WrongState."""
    row = get(pk)
    rows = BulkRetry.objects.filter(pk=pk, state=BulkRetry.State.RUNNING)
    if not rows.update(state=BulkRetry.State.STOPPED, finished_at=Now()):
        raise WrongState(f"retry {pk} is {row.state} already")
    record("stop retry", **who, retry=pk, spider=row.spider)
    return get(pk)


def get(pk: int) -> BulkRetry:
    """Raises UnknownRetry."""
    row = BulkRetry.objects.select_related("user").filter(pk=pk).first()
    if row is None:
        raise UnknownRetry(f"there is no bulk retry {pk}")
    return row


def work(still_here: Callable[[], None] = lambda: None, seconds: float = ROUND) -> None:
    """Does steps of those that run, for some seconds. Raises FrontierError and django.db.Error;
    what is left is done in a later round."""
    until = time.monotonic() + seconds
    running = BulkRetry.objects.filter(state=BulkRetry.State.RUNNING).order_by("pk")
    for pk in running.values_list("pk", flat=True):
        with contained(f"bulk retry {pk}"):
            while time.monotonic() < until and step(pk):
                still_here()


def step(pk: int) -> bool:
    """Retries the next task; returns whether there is another one. Raises FrontierError, and
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
    chosen = Q(error_group__in=_groups(wanted)) | _without_group(wanted)
    chosen &= _between(row.first_page, row.last_page, row.since)
    try:
        with transaction.atomic():
            retried = retry(task, only=chosen)
    except (UnknownTask, WrongState, spider_switch.SpiderDisabled) as error:
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


def _ungrouped(wanted: WantedErrors) -> QuerySet[Page]:
    """The errors that a process of an older release recorded."""
    rows = Page.objects.filter(task__spider=wanted.spider, state=Page.State.ERROR)
    return rows.filter(_without_group(wanted)).order_by()


def _without_group(wanted: WantedErrors) -> Q:
    """Those of the errors of a task that have no group, but are wanted."""
    if wanted.group is not None:
        return Q(pk__in=())
    some = Q(error_group=None) & ~Q(reason__in=NO_ERRORS)
    return some & Q(reason=wanted.reason) if wanted.reason else some


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
    """Those that can be retried."""
    rows = Task.objects.filter(pk__in=tasks, state__in=ENDED, unwritten=None)
    return [*rows.values_list("pk", flat=True)]


def _told(wanted: WantedErrors) -> dict[str, Any]:
    since = wanted.since and wanted.since.isoformat()
    return {**wanted._asdict(), "since": since}


def retry(task_id: int, rids: Collection[UUID] | None = None, only: Q | None = None) -> int:
    """Runs a task again, with those of its requests that ended in error, were cancelled or were
    excluded: all, the given ones, or those that ``only`` matches. Returns how many. Their rows and
    items are deleted. Within a second the leading steward sees that Redis does not know the task,
    and restores it there.

    Raises UnknownTask, SpiderDisabled, WrongState if the task has not ended or none of it has
    failed, and FrontierError; then nothing was changed."""
    if (task := get_task(task_id)).state not in ENDED or task.unwritten is not None:
        raise _not_ended(task)
    if task.watch_id is not None:
        raise WrongState(f"task {task_id} is a round of a watch, which visits its pages again")
    spider_switch.check(task.spider)
    _make_forgotten(task_id)
    with transaction.atomic():
        ended = Task.objects.filter(pk=task_id, state__in=ENDED, unwritten=None)
        again = {"state": Task.State.RUNNING, "finished_at": None, "outcome": "", "reason": ""}
        again["closing"] = ""
        waited = (clock.now() - task.finished_at).total_seconds() if task.finished_at else 0
        if not ended.update(**again, retries=F("retries") + 1, idle=F("idle") + max(0, waited)):
            raise _not_ended(get_task(task_id))
        budgets.begin(task)
        errors = Page.objects.filter(task=task_id, state=Page.State.ERROR)
        if rids is not None:
            errors = errors.filter(rid__in=rids)
        if only is not None:
            errors = errors.filter(only)
        _keep_follow_ups(task_id, errors)
        items, _ = Item.objects.filter(rid__in=errors.filter(items__gt=0).values("rid")).delete()
        cancelled = errors.filter(reason=CANCELLED).count()
        excluded = errors.filter(reason__in=EXCLUDED).count()
        last = Page.objects.filter(rid=UUID(bytes=end_rid(task_id)))
        counted = (errors | last).filter(stats__isnull=False).exists()
        first = layers.first_of(errors.exclude(rid=UUID(bytes=end_rid(task_id))))
        failed, _ = errors.order_by().delete()
        if not failed:
            which = "none of the named requests" if rids or only else "none of its requests"
            raise WrongState(f"task {task_id} has nothing to retry: {which} ended in error")
        # It runs again, because the task ends again. If it failed, it is deleted already.
        of_last, _ = Item.objects.filter(rid__in=last.values("rid")).delete()
        done, _ = last.delete()
        Task.objects.filter(pk=task_id).update(
            nf=F("nf") - done,
            ne=F("ne") - failed,
            cancelled=F("cancelled") - cancelled,
            excluded=F("excluded") - excluded,
            items=F("items") - items - of_last,
        )
        layers.begin_again(task, first)
        if counted:
            stats.recount(task_id)
        # Its quality is read again from the start: a profile cannot forget rows.
        Profile.objects.filter(task=task_id).delete()
        Finding.objects.filter(task=task_id).delete()
    return failed


def _make_forgotten(task_id: int) -> None:
    """Makes Redis forget the task: the process that ended it may have died before doing so, and
    Redis would not accept again what it knows to be done."""
    try:
        frontier().close_tasks([task_id])
        left = frontier().counts(task_id)
    except (RedisError, CrawlframeError) as error:
        raise FrontierError(f"Redis does not answer: {error}. Nothing was changed") from None
    if left is not None:
        raise WrongState(
            f"task {task_id} has ended, but Redis still has {left.nr} requests of it. "
            "Nothing was changed; try again in some seconds"
        )


def _keep_follow_ups(task_id: int, errors: QuerySet[Page]) -> None:
    """Keeps what an errback led to recorded: those requests have rows of their own."""
    led = errors.filter(follow_ups__isnull=False).order_by("pk")
    more = [one for packed in led.values_list("follow_ups", flat=True) for one in _read(packed)]
    if more:
        task = Task.objects.only("seeds").get(pk=task_id)
        task.seeds = pack_admissions([*unpack_admissions(task.seeds), *more])
        task.save(update_fields=["seeds"])


def _read(packed: bytes | memoryview | None) -> list[Admission]:
    return [] if packed is None else unpack_admissions(packed)


def _not_ended(task: Task) -> WrongState:
    if task.unwritten is not None:
        return WrongState(
            f"task {task.pk} is cancelled, and {task.unwritten:,} of its {task.na:,} requests are "
            "still to be recorded; retry it when that is done. Nodes do it: while none runs, "
            f"start one with {command('runcrawler')}"
        )
    return WrongState(
        f"task {task.pk} is {task.state} and cannot be retried; only tasks that are "
        f"{' or '.join(ENDED)} can"
    )
