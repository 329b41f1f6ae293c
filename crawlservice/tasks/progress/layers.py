"""The layers of tasks that are crawled one depth after the other, with the pages of each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Min, QuerySet, Sum

from crawlframe.frontier import Counts
from crawlservice.models import Page, Task, TaskLayer
from crawlservice.tasks.progress.progress import Progress

NUMBERS = ("nf", "ne", "cancelled", "excluded", "items")
DONE, PRESENT, WAITING = "done", "present", "waiting"


class Layer(NamedTuple):
    """``state``: done, present or waiting. ``pages``: requests that are done, in layer 0 with the
    run of ``start``; ``errors``: without those that are cancelled or excluded; ``found``: requests
    of the next layer; None: not known. ``left``: its requests that have not ended."""

    number: int
    state: str
    pages: int
    errors: int
    excluded: int
    cancelled: int
    items: int
    found: int | None
    left: int
    ended_at: datetime | None

    @property
    def requests(self) -> int:
        """The number of requests of this layer."""
        return self.pages + self.errors + self.excluded + self.cancelled + self.left


def record(task: Task, counts: Counts, now: Any) -> None:
    """Writes the counts of the task's present layer, which is done, in the transaction that starts
    the next. Raises django.db.Error."""
    kept = [one for one in TaskLayer.objects.filter(task=task) if one.number != task.layer]
    own = _less(counts._asdict(), kept)
    TaskLayer.objects.update_or_create(
        task=task, number=task.layer, defaults={**own, "ended_at": now}
    )


def first_of(errors: QuerySet[Page]) -> int | None:
    """The first layer of these requests; None if there are none."""
    least: int | None = errors.aggregate(least=Min("depth"))["least"]
    return least


def begin_again(task: Task, first: int | None) -> None:
    """Restarts a retried task at the layer of the first request that runs again, after the rows of
    these were deleted, and counts the remaining rows of each layer. In the transaction of the
    retry. Raises django.db.Error."""
    if not task.settings.get("layers") or first is None:
        return
    Task.objects.filter(pk=task.pk).update(layer=min(task.layer, first))
    pages = Page.objects.filter(task=task).order_by().values("depth")
    before = TaskLayer.objects.filter(task=task, number__lt=first)
    ended = dict(before.values_list("number", "ended_at"))
    TaskLayer.objects.filter(task=task).delete()
    rows = pages.annotate(**Page.counts(), items=Sum("items")).values_list("depth", *NUMBERS)
    TaskLayer.objects.bulk_create(
        TaskLayer(
            task=task,
            number=depth,
            ended_at=ended.get(depth),
            **dict(zip(NUMBERS, numbers, strict=True)),
        )
        for depth, *numbers in rows
    )


def of_task(progress: Progress) -> list[Layer]:
    """The layers of a task so far, and the waiting layer; [] if it is not crawled in layers. Raises
    django.db.Error."""
    task = progress.task
    if not task.settings.get("layers"):
        return []
    kept = {one.number: one for one in TaskLayer.objects.filter(task=task)}
    others = [one for number, one in kept.items() if number != task.layer]
    present = _less({name: getattr(progress, name) for name in NUMBERS}, others)
    later = [one for one in others if one.number > task.layer]
    found: list[Layer] = []
    for number in range(max([task.layer, *kept]) + 1):
        row = kept.get(number)
        numbers = present if number == task.layer else {n: getattr(row, n, 0) for n in NUMBERS}
        errors = numbers["ne"] - numbers["cancelled"] - numbers["excluded"]
        here = number == task.layer
        state = PRESENT if here else DONE if number < task.layer else WAITING
        left = max(0, progress.nr - progress.beyond) if here and progress.live else 0
        ended = row.ended_at if row is not None and not here else None
        if here and progress.ended:
            state, ended, left = DONE, task.finished_at, 0
        counted = numbers["excluded"], numbers["cancelled"], numbers["items"]
        found.append(Layer(number, state, numbers["nf"], errors, *counted, None, left, ended))
    if progress.beyond and not later and not progress.ended:
        found.append(Layer(task.layer + 1, WAITING, 0, 0, 0, 0, 0, None, progress.beyond, None))
    links: list[int | None] = [one.requests for one in found[1:]]
    unknown = found[-1].state == WAITING or not (progress.live or progress.ended)
    links.append(None if unknown else 0)
    return [one._replace(found=n) for one, n in zip(found, links, strict=True)]


def waits_for_hand(task: Task) -> bool:
    """Whether the task's present layer waits for an operator to resume the task."""
    by_hand = task.settings.get("pause_layers", False)
    return bool(task.state == Task.State.PAUSED and by_hand and task.layer)


def in_words(layer: Layer) -> str:
    """A line about it, in English."""
    parts = [f"{layer.pages:,} done", f"{layer.errors:,} errors"]
    parts += [f"{n:,} {name}" for name in ("excluded", "cancelled") if (n := getattr(layer, name))]
    if layer.left:
        parts.append(f"{layer.left:,} left")
    if layer.found is not None:
        parts.append(f"{layer.found:,} found for the next")
    return f"{layer.state}: {', '.join(parts)}"


def _less(counted: Mapping[str, int], kept: list[TaskLayer]) -> dict[str, int]:
    return {
        name: max(0, counted[name] - sum(getattr(one, name) for one in kept)) for name in NUMBERS
    }
