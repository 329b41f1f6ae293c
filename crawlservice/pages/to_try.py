"""Pages to try: a sample of the good pages that are kept, on which code is tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from crawlframe.pages.reparse import SourcePage
from crawlframe.render.knowledge import form_of
from crawlframe.request.record import read_head
from crawlservice.models import KeptPage, Task
from crawlservice.pages.sources import source_pages

LOOK_AT = 10  # rows that are looked at for each page of the sample
MANY_SPIDERS = 20  # from which on they are not looked up one by one
CHUNK = 64  # pages that are read at a time
Row = tuple[int, int, bytes | memoryview, str]  # number, task, record and URL of a page
BAD = (Task.Outcome.FAILED, Task.Outcome.CANCELLED)


def pages_to_try(spider: str, limit: int) -> Iterator[tuple[dict[str, Any], SourcePage]]:
    """The arguments of the task, as stored, and the page: at most ``limit`` of the newest good
    pages of a spider, evenly of each callback and template of URLs. Pages whose body cannot be
    read are left out. Raises django.db.Error."""
    chosen = [*_evenly(_rows(spider, LOOK_AT * limit), limit)]
    numbers = {task for _, task in chosen}
    arguments = dict(Task.objects.filter(pk__in=numbers).values_list("pk", "arguments"))
    for start in range(0, len(chosen), CHUNK):
        left = {number for number, _ in chosen[start : start + CHUNK]}
        while left:
            found, left = source_pages(left)
            for page in found.values():
                if not page.problem and page.task in arguments:
                    yield arguments[page.task], page


def tried_spiders(spiders: list[str] | None) -> list[str] | None:
    """Those of these spiders that have good pages; all of them if they are many. None stands for
    all spiders, and is returned if any page is kept. Raises django.db.Error."""
    good = KeptPage.objects.filter(reason="")
    if not (good.filter(sample__isnull=False).exists() or good.exists()):
        return []
    if spiders is None or len(spiders) > MANY_SPIDERS:
        return spiders
    return [name for name in spiders if _with_pages(Task.objects.filter(spider=name)).exists()]


def spiders_with_pages() -> list[str]:
    """The names of the spiders that have good pages. Raises django.db.Error."""
    rows = _with_pages(Task.objects.order_by("spider"))
    return [*rows.values_list("spider", flat=True).distinct()]


def _with_pages(tasks: QuerySet[Task]) -> QuerySet[Task]:
    return tasks.filter(Exists(KeptPage.objects.filter(task=OuterRef("pk"), reason="")))


def _rows(spider: str, most: int) -> Iterator[Row]:
    """Good pages of the latest runs that did not fail, if there are any."""
    runs = _with_pages(Task.objects.filter(spider=spider).order_by("-pk"))
    for tasks in (runs.exclude(outcome__in=BAD), runs.filter(outcome__in=BAD)):
        left = most
        for row in _of_tasks(tasks, most):
            left -= 1
            yield row
        if left < most:
            return


def _of_tasks(tasks: QuerySet[Task], most: int) -> Iterator[Row]:
    for task in tasks.values_list("pk", flat=True).iterator(chunk_size=100):
        rows = KeptPage.objects.filter(task=task, reason="").order_by("-pk")
        for row in rows.values_list("pk", "task_id", "record", "url")[:most]:
            most -= 1
            yield row
        if most <= 0:
            return


def _evenly(rows: Iterable[Row], limit: int) -> Iterator[tuple[int, int]]:
    """Number and task of the newest pages of each callback and template of URLs, in turn."""
    kinds = defaultdict(list)
    for number, task, record, url in rows:
        kinds[read_head(bytes(record)).callback, form_of(url)].append((number, task))
    left = [iter(found) for found in kinds.values()]
    while left and limit > 0:
        for one in [*left]:
            if (page := next(one, None)) is None:
                left.remove(one)
            elif limit > 0:
                limit -= 1
                yield page
