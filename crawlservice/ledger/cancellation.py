"""Settlement: the ledger rows of requests that a cancelled task took out of Redis unfetched.

The database knows every request that was ever admitted: seeds and recorded follow-ups. Those
without a row get one, with the reason "cancelled", in the background; ``Task.unwritten`` is the
number still to be written. Redis is not needed, so this may be interrupted and repeated at any
point."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import chain
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, QuerySet, Sum
from django.db.models.functions import Now

from crawlframe.errors import BadRequest
from crawlframe.proxies.place import host_in
from crawlframe.request.record import read_head
from crawlframe.request.request import Admission, unpack_admissions
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CANCELLED
from crawlservice.connections.contained import contained
from crawlservice.ledger import starts
from crawlservice.ledger.ending import end_event
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, StartPart, Task
from crawlservice.tasks.results.task_rows import of_task
from crawlservice.tasks.stored_limits import limits_of

log = logging.getLogger(__name__)

REQUESTS_PER_STEP = 500  # requests at a time
LISTS = 10  # rows whose follow-ups are read at a time: each may lead to very many requests
# Ended with requests that were cancelled; FINISHED when the spider closed it.
SETTLED = (Task.State.CANCELLED, Task.State.FINISHED)
SLICE = 1.0  # seconds per turn: other chores wait meanwhile


class Settler:
    """Settles one task after the other, for a slice of time in each turn. Each new leader makes its
    own, because another leader may have settled tasks in between."""

    def __init__(self) -> None:
        self._steps: Iterator[bool] = iter(())
        self._task, self._bad = 0, set[int]()  # being settled; tasks that cannot be settled

    def tick(self, seconds: float = SLICE) -> None:
        """Writes rows for about ``seconds``, if there are any to write. Raises LedgerAway and
        django.db.Error; the next turn then starts again from the first row."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            going = False
            with contained(f"task {self._task}") as failed:
                going = next(self._steps, False)
            if failed:
                self._bad.add(self._task)
            if not going:
                task = unsettled().exclude(pk__in=self._bad).order_by("pk").first()
                if task is None:
                    self._bad.clear()  # they are tried again in the next turn
                    return
                self._task, self._steps = task.pk, settle(task)


def unsettled() -> QuerySet[Task]:
    """Tasks whose rows are to be written."""
    return Task.objects.filter(unwritten__isnull=False, state__in=SETTLED)


def settle(task: Task) -> Iterator[bool]:
    """Yields True after each batch. If a row was added at a place already passed, or the task was
    retried, the task stays as it is, to be settled once more."""
    known = KnownRequests(task)
    for batch in known.batches():
        if not _write(task, batch):
            _end(task)
            return
        yield True
    _end(task, known.lists)


class KnownRequests:
    """Every request that was ever to be admitted, as the database knows it. ``lists``: number of
    rows and parts of a start whose follow-ups were read."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.lists = 0

    def batches(self) -> Iterator[list[Admission]]:
        """Batches of admissions, in the order of their records."""
        batch: list[Admission] = []
        for packed in chain([self._task.seeds], self._parts(), self._follow_ups()):
            batch += unpack_admissions(packed)
            whole = len(batch) // REQUESTS_PER_STEP * REQUESTS_PER_STEP
            for start in range(0, whole, REQUESTS_PER_STEP):
                yield batch[start : start + REQUESTS_PER_STEP]
            del batch[:whole]
        yield batch

    def _parts(self) -> Iterator[bytes]:
        for packed in starts.lists(self._task.pk):
            self.lists += 1
            yield packed

    def _follow_ups(self) -> Iterator[bytes | memoryview]:
        """The follow-ups of each row, including rows that are being written."""
        rows = _leading_rows()
        last = 0
        while some := [
            *of_task(rows, self._task.pk, after=last).values_list("pk", "follow_ups")[:LISTS]
        ]:
            for _, packed in some:
                assert packed is not None
                self.lists += 1
                yield packed
            last = some[-1][0]


def _leading_rows() -> QuerySet[Page]:
    return Page.objects.filter(follow_ups__isnull=False)


@transaction.atomic
def _write(walked: Task, batch: list[Admission]) -> bool:
    """Writes rows for the requests of a batch without one. Returns False when no more are to be
    written.

    Requests beyond the page limits have no row. Only Redis knew them: the first requests recorded
    count as admitted, as when Redis is filled again."""
    if (task := _locked(walked)) is None:
        return False
    assert task.unwritten is not None
    limits = limits_of(task)
    limited = limits.page_limit or limits.host_page_limit
    room = task.unwritten + max(0, limits.page_limit - task.na) if limited else len(batch)
    missing = _without_row(batch)[:room]
    DjangoLedger().commit([_outcome(task.pk, admission) for admission in missing])
    written = len(missing)
    Task.objects.filter(pk=task.pk).update(
        unwritten=max(0, task.unwritten - written),
        na=F("na") + max(0, written - task.unwritten),  # led to by a row that Redis did not know
    )
    return room > written or not limited


def _without_row(batch: list[Admission]) -> list[Admission]:
    named = {admission.rid: admission for admission in batch}
    rows = Page.objects.filter(rid__in=[UUID(bytes=rid) for rid in named]).order_by()
    written = {rid.bytes for rid in rows.values_list("rid", flat=True)}
    return [admission for rid, admission in named.items() if rid not in written]


def _outcome(task: int, admission: Admission) -> Outcome:
    outcome = Outcome(admission.rid, task, host_in(admission.host), admission.record, 0, 0)
    try:
        # Not the whole record: its values have classes of the spiders, which stewards lack.
        outcome.url, outcome.depth, outcome.callback, _ = read_head(admission.record)
    except BadRequest as error:
        return outcome.end(Verdict.ERROR, CANCELLED, str(error))
    return outcome.end(Verdict.ERROR, CANCELLED)


@transaction.atomic
def _end(task: Task, lists: int | None = None) -> None:
    """Marks all rows as written, takes over their numbers and reports the end. ``lists``: only if
    that many rows and parts of a start lead to others; then no further row can come, because each
    request that they lead to has one."""
    if (ended := _locked(task)) is None:
        return
    leading = _leading_rows().filter(task=task), StartPart.objects.filter(task=task)
    if lists is not None and lists != sum(rows.count() for rows in leading):
        return
    rows = Page.objects.filter(task=task).order_by()
    numbers = rows.aggregate(na=Count("pk"), **Page.counts(), items=Sum("items", default=0))
    Task.objects.filter(pk=task.pk).update(**numbers, unwritten=None)
    end_event(ended, ended.outcome, ended.reason).save()
    log.info(
        "task %d: the rows of its %d cancelled requests are written", task.pk, numbers["cancelled"]
    )


def _locked(walked: Task) -> Task | None:
    """The task as it is now, locked until the transaction ends, if it has rows to be written and
    was not retried since ``walked`` was read."""
    waiting = Task.objects.filter(
        pk=walked.pk,
        state__in=SETTLED,
        unwritten__isnull=False,
        retries=walked.retries,
    )
    return (
        waiting.select_for_update(no_key=True)
        .only("settings", "priority", "ends", "na", "unwritten", "watch", "outcome", "reason")
        .annotate(clock=Now())
        .first()
    )
