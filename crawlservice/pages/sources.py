"""Sources: kept pages that are parsed again, as they are chosen and read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from crawlframe.errors import BadRequest, PageDamaged, RecordElsewhere, RecordGone, StoreError
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.request.record import read_head
from crawlframe.run.outcome import NO_ERRORS
from crawlservice.models import KeptPage, Task
from crawlservice.pages.bodies import read

MAX_BYTES = 32 << 20  # of bodies that are read together, unless a single one is larger
COLUMNS = (
    "pk", "rid", "task_id", "url", "status", "reason", "headers", "address", "record", "body_id",
    "body__size",
)  # fmt: skip


class Sources:
    """Of one worker. ``settled`` returns the number up to which every page is visible that ever
    will be."""

    def __init__(self, settled: Callable[[], int]) -> None:
        self._settled = settled

    def numbers(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        """As PageLedger.to_parse. Raises django.db.Error."""
        if not reparse.waits:
            rows = chosen(reparse).filter(pk__lte=reparse.last)
            found, seen = _some(rows, reparse, after, most)
            return PageNumbers(found, seen, seen == after)
        # Asked first: tasks that end meanwhile may have written pages since.
        over = not Task.objects.filter(pk=reparse.task, state__in=Task.ACTIVE).exists()
        rows, until = chosen(reparse), after
        if not over:
            until = max(after, self._settled())
            rows = rows.filter(pk__lte=until)
        found, seen = _some(rows, reparse, after, most)
        if seen == after:
            return PageNumbers(found, until, over)
        return PageNumbers(found, seen, False)


def chosen(reparse: Reparse) -> QuerySet[KeptPage]:
    """The pages of a reparse, whatever their callback, without pages excluded by politeness."""
    rows = KeptPage.objects.exclude(reason__in=NO_ERRORS)
    if reparse.task:
        rows = rows.filter(task=reparse.task)
    else:
        rows = rows.filter(task__spider=reparse.spider)
    if reparse.since is not None:
        rows = rows.filter(fetched_at__gte=datetime.fromtimestamp(reparse.since, UTC))
    if reparse.reason is not None:
        rows = rows.filter(reason=reparse.reason)
    return rows


def _some(
    rows: QuerySet[KeptPage], reparse: Reparse, after: int, most: int
) -> tuple[list[int], int]:
    """Looks at the next pages, at most so many. Returns the numbers of the matching pages, and the
    number of the last page looked at: ``after`` if there are no others."""
    following = rows.filter(pk__gt=after).order_by("pk")
    if not reparse.callback:
        found = [*following.values_list("pk", flat=True)[:most]]
        return found, found[-1] if found else after
    some = [*following.values_list("pk", "record")[:most]]
    found = [pk for pk, record in some if _callback_of(record) == reparse.callback]
    return found, some[-1][0] if some else after


def _callback_of(record: bytes | memoryview) -> str:
    try:
        return read_head(bytes(record)).callback
    except BadRequest:
        return ""


class _Body(NamedTuple):
    """The fields of SourcePage about the body of a page."""

    content: bytes = b""
    problem: str = ""
    again: bool = False
    elsewhere: bool = False


def source_pages(
    numbers: Collection[int],
) -> tuple[dict[int, SourcePage], set[int]]:
    """As PageLedger.sources. A page that cannot be read says why. Raises django.db.Error."""
    rows = [*KeptPage.objects.filter(pk__in=numbers).order_by("pk").values_list(*COLUMNS)]
    some: list[Any] = []
    size = 0
    for row in rows:
        if some and size + row[-1] > MAX_BYTES:
            break
        some.append(row)
        size += row[-1]
    bodies = _bodies({row[-2] for row in some})
    found = {}
    for number, rid, task, url, status, reason, headers, address, record, body, _ in some:
        if body in bodies:  # it may have been deleted with its page in this moment
            found[number] = SourcePage(
                *(number, rid.bytes, task, url, status, reason, headers, address, bytes(record)),
                *bodies[body],
                stored=body,
            )
    return found, {row[0] for row in rows[len(some) :]}


def _bodies(numbers: Collection[int]) -> dict[int, _Body]:
    """The bodies; for one that cannot be read, why, and whether it may be later."""
    try:
        return {number: _Body(body) for number, body in read(numbers).items()}
    except (PageDamaged, StoreError) as error:
        if len(numbers) == 1:
            (number,) = numbers
            again = isinstance(error, StoreError) and not isinstance(error, RecordGone)
            return {number: _Body(b"", str(error), again, isinstance(error, RecordElsewhere))}
        found: dict[int, _Body] = {}
        for number in numbers:
            found |= _bodies([number])
        return found
