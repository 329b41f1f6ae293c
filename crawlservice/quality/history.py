"""History: the good runs that a run is compared with.

Runs with the same arguments and settings, if there are enough. Otherwise all good runs of the
spider: then only metrics that do not depend on the site are compared, such as the fields that have
values."""

from __future__ import annotations

import msgspec
from django.db.models import QuerySet

from crawlservice.models import Profile, Task
from crawlservice.quality.norms import MIN_RUNS, NONE, RUNS, Good, Norms, Totals, norms_of
from crawlservice.quality.run import decode


class History(msgspec.Struct, frozen=True):
    """``last_good``: the latest good task, 0 if there is none; ``version``: the code that ran most
    of it."""

    norms: Norms
    last_good: int = 0
    version: str = ""


def history_of(task: Task) -> History:
    """The good runs before a task. Raises django.db.Error."""
    of_spider = Profile.objects.filter(good=True, spider=task.spider, task__lt=task.pk)
    same = _good(of_spider.filter(arguments_hash=task.arguments_hash))
    good, alike = same, True
    if len(same) < MIN_RUNS:
        good, alike = _good(of_spider), False
    if not good:
        return History(NONE)
    last = (same or good)[0]
    return History(norms_of(good, alike=alike), last.task, last.run.content().version)


def _good(rows: QuerySet[Profile]) -> list[Good]:
    """Good runs, the latest first, back to the last run that was accepted."""
    found = []
    rows = rows.select_related("task").defer("task__seeds", "task__arguments")
    rows = rows.exclude(content=b"")
    for profile in rows.order_by("-task_id")[:RUNS]:
        try:
            run = decode(profile.content)
        except msgspec.MsgspecError:  # of a newer release
            continue
        found.append(Good(profile.task_id, run, totals_of(profile.task, profile.seconds)))
        if profile.baseline:
            break
    return found


def forget_old(profile: Profile) -> None:
    """Empties the profiles that no later run with these arguments will be compared with."""
    same = Profile.objects.filter(spider=profile.spider, arguments_hash=profile.arguments_hash)
    good = same.filter(good=True).exclude(content=b"").order_by("-task_id")
    kept = [*good.values_list("pk", flat=True)[:RUNS]]
    if len(kept) == RUNS:
        old = same.filter(judged=True, task__lt=profile.task_id).exclude(content=b"")
        rows = old.exclude(pk__in=kept).order_by("-task_id").values_list("pk", flat=True)
        same.filter(pk__in=[*rows[RUNS:][:100]]).update(content=b"")


def totals_of(task: Task, seconds: float | None) -> Totals:
    """The totals of a task that has ended."""
    pages = max(0, task.na - 1 - task.cancelled - task.excluded)
    return Totals(task.items, pages, seconds)
