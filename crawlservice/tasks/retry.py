"""Retry: the failed requests of a task that has ended are run again."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from redis import RedisError

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError, FrontierError
from crawlframe.request.request import Admission, end_rid, pack_admissions, unpack_admissions
from crawlframe.run.reasons import CANCELLED, EXCLUDED
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier
from crawlservice.models import Finding, Item, Page, Profile, Task
from crawlservice.tasks import spider_switch
from crawlservice.tasks.progress import budgets, layers, stats
from crawlservice.tasks.submit import WrongState, get_task

ENDED = (Task.State.FINISHED, Task.State.CANCELLED)


def retry(task_id: int, rids: Collection[UUID] | None = None, only: Q | None = None) -> int:
    """Runs a task again, with requests that ended in error, were cancelled or were excluded: all,
    the given ones, or the matches of ``only``. Returns how many. Their rows and items are deleted.
    Within a second the leading steward sees that Redis does not know the task, and restores it
    there.

    Raises NotFound, SpiderDisabled, WrongState if the task has not ended or none of it has
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
    Redis would not accept again requests that it knows to be done."""
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
    """Keeps the follow-ups of errbacks recorded: these requests have rows of their own."""
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
