"""Sources: kept pages that are parsed again, as they are chosen and read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from crawlframe.errors import BadRequest, PageDamaged, StoreError
from crawlframe.outcome import NO_ERRORS
from crawlframe.pages.reparse import Reparse, SourcePage
from crawlframe.record import read_head
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

    def numbers(self, reparse: Reparse, after: int, most: int) -> tuple[list[int], bool]:
        """As Ledger.pages_to_parse. Raises django.db.Error."""
        if not reparse.waits:
            return _some(chosen(reparse).filter(pk__lte=reparse.last), reparse, after, most)
        # Asked first: what ends meanwhile may have written pages since.
        over = not Task.objects.filter(pk=reparse.task, state__in=Task.ACTIVE).exists()
        rows = chosen(reparse)
        if not over:
            rows = rows.filter(pk__lte=self._settled())
        found, last = _some(rows, reparse, after, most)
        return found, last and over


def chosen(reparse: Reparse) -> QuerySet[KeptPage]:
    """The pages that are meant, by all but their callback. What politeness excluded is not."""
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
) -> tuple[list[int], bool]:
    """The next numbers, and whether there are no others. Pages of other callbacks are passed
    over."""
    while True:
        following = rows.filter(pk__gt=after).order_by("pk")
        if not reparse.callback:
            found = [*following.values_list("pk", flat=True)[:most]]
            return found, not found
        some = [*following.values_list("pk", "record")[:most]]
        found = [pk for pk, record in some if _callback_of(record) == reparse.callback]
        if found or not some:
            return found, not some
        after = some[-1][0]


def _callback_of(record: bytes | memoryview) -> str:
    try:
        return read_head(bytes(record)).callback
    except BadRequest:
        return ""


def source_pages(
    numbers: Collection[int],
) -> tuple[dict[int, SourcePage], set[int]]:
    """As Ledger.source_pages. A page that cannot be read says why. Raises django.db.Error."""
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
        content, problem, again = bodies[body]
        found[number] = SourcePage(
            *(number, rid.bytes, task, url, status, reason, headers, address, bytes(record)),
            *(content, problem, again),
        )
    return found, {row[0] for row in rows[len(some) :]}


def _bodies(numbers: Collection[int]) -> dict[int, tuple[bytes, str, bool]]:
    """The bodies; for one that cannot be read, why, and whether it may be later."""
    try:
        return {number: (body, "", False) for number, body in read(numbers).items()}
    except (PageDamaged, StoreError) as error:
        if len(numbers) == 1:
            (number,) = numbers
            return {number: (b"", str(error), isinstance(error, StoreError))}
        found: dict[int, tuple[bytes, str, bool]] = {}
        for number in numbers:
            found |= _bodies([number])
        return found
