"""Sources: kept pages that are parsed again, as they are chosen and read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from django.db.models import QuerySet

from crawlframe.errors import BadRequest, RecordElsewhere, RecordGone, StoreError
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.request.record import read_head
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.models import KeptPage, Task
from crawlservice.pages.bodies import batches, read_each

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
    """The pages of a reparse, whatever their callback, without pages excluded by politeness.
    Samples are only tried: the items of a few pages would differ from those of all others."""
    rows = KeptPage.objects.exclude(reason__in=NO_ERRORS)
    if not reparse.dry_run:
        rows = rows.filter(sample=None)
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


def source_pages(
    numbers: Collection[int],
) -> tuple[dict[int, SourcePage], set[int]]:
    """As PageLedger.sources. A page that cannot be read says why. Raises django.db.Error."""
    rows = [*KeptPage.objects.filter(pk__in=numbers).order_by("pk").values_list(*COLUMNS)]
    some = next(batches(((row, row[-1]) for row in rows), len(rows)), [])
    bodies, unreadable = read_each({row[-2] for row in some})
    found = {}
    for number, rid, task, url, status, reason, headers, address, record, body, _ in some:
        if body not in bodies and body not in unreadable:  # deleted with its page in this moment
            continue
        error = unreadable.get(body)
        found[number] = SourcePage(
            *(number, rid.bytes, task, url, status, reason, headers, address, bytes(record)),
            bodies.get(body, b""),
            problem="" if error is None else str(error),
            again=isinstance(error, StoreError) and not isinstance(error, RecordGone),
            elsewhere=isinstance(error, RecordElsewhere),
            stored=body,
        )
    return found, {row[0] for row in rows[len(some) :]}
