"""PageRetention: deletes kept pages by age, number and size, and bodies that no page has any more.
Pages that cases hold stay. Safe while crawls run: see rows.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import starmap

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, QuerySet, Sum
from django.db.models.functions import Now

from crawlframe.frontier.client.batches import chunks
from crawlservice.models import CaseSpider, KeptPage, PageBody, Task
from crawlservice.pages.sample import SamplePage, surplus

BATCH = 2_000  # rows deleted at a time
WINDOW = 10_000  # bodies looked at at a time
UNUSED_SPAN = timedelta(minutes=10)  # since a page used a body, before it is deleted
SAMPLES_PART = 60  # of the size of all pages that samples may take
SAMPLES_EVERY = 300.0  # seconds between two looks at samples
SWEEP_EVERY = 600.0  # seconds from the end of a walk through all bodies to the next one
MIB = 1 << 20


class PageRetention:
    """Retention by the leading steward. ``clock`` returns seconds; ``unused``: as UNUSED_SPAN."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, unused: timedelta = UNUSED_SPAN
    ) -> None:
        self._clock = clock
        self._unused = unused
        self._last = 0  # the number of the body that was looked at last
        self._sweep_at = 0.0
        self._samples_at = 0.0
        self._newest = 0  # the number of the newest page of a sample that was looked at
        self._size = 0  # bytes of the bodies that were looked at and that a page has
        self._excess = 0  # bytes that are still to go
        self._held: set[int] = set()  # numbers of pages that cases hold

    def step(self) -> bool:
        """Deletes a batch. Returns whether there may be more. Raises django.db.Error."""
        self._held = held_pages()
        # Each of them, so that none waits for the others.
        more = [
            *(self._old(), self._surplus(), self._of_samples(), self._too_much(), self._sweep())
        ]
        return any(more)

    def _old(self) -> bool:
        if not settings.KEEP_PAGES:
            return False
        old = KeptPage.objects.filter(fetched_at__lt=Now() - timedelta(days=settings.KEEP_PAGES))
        return _delete(old.exclude(pk__in=self._held).order_by("fetched_at")) == BATCH

    def _surplus(self) -> bool:
        """Deletes all but the newest of each task and reason, unless the task keeps all pages."""
        keep = settings.KEEP_ERROR_PAGES
        all_kept = Task.objects.filter(pk=OuterRef("task"), settings__keep="all")
        failed = KeptPage.objects.exclude(reason="").filter(~Exists(all_kept)).order_by()
        many = failed.values_list("task", "reason").annotate(n=Count("pk")).filter(n__gt=keep)
        gone = 0
        for task, reason, _ in many[:100]:
            rows = failed.filter(task=task, reason=reason).order_by("-pk")
            before = rows.values_list("pk", flat=True)[keep:].first()
            if before is not None:  # it may be gone meanwhile
                gone += _delete(rows.filter(pk__lte=before).exclude(pk__in=self._held))
        return gone >= BATCH

    def _of_samples(self) -> bool:
        """Deletes what is too much in samples, if pages have come since it was done last."""
        if self._clock() < self._samples_at:
            return False
        rows = KeptPage.objects.filter(sample__isnull=False)
        newest = rows.aggregate(newest=Max("pk"))["newest"] or 0
        if newest > self._newest:
            columns = "pk", "task__spider", "sample", "task", "url", "body__stored"
            rows = rows.exclude(pk__in=self._held).order_by("-pk")
            found = rows.values_list(*columns).iterator(chunk_size=BATCH)
            most = settings.CRAWLFRAME.keep_sample
            size = (settings.KEEP_PAGES_SIZE * MIB) // SAMPLES_PART
            for numbers in chunks(surplus(starmap(SamplePage, found), most, size), BATCH):
                _delete(KeptPage.objects.filter(pk__in=numbers))
        self._newest, self._samples_at = newest, self._clock() + SAMPLES_EVERY
        return False

    def _too_much(self) -> bool:
        """The oldest, if all of them take too much. A walk through all bodies has found that."""
        if self._excess <= 0 or not settings.KEEP_PAGES_SIZE:
            return False
        rows = KeptPage.objects.filter(body__segment=None).exclude(pk__in=self._held)
        oldest = rows.order_by("pk")[:BATCH]
        found = [*oldest.values_list("pk", "body__stored")]
        last = 0
        for last, size in found:  # noqa: B007
            self._excess -= size
            if self._excess <= 0:
                break
        _delete(rows.filter(pk__lte=last))
        if self._excess <= 0 or not found:
            # A new walk, for their bodies, and to sum up the remaining ones.
            self._excess = self._last = self._size = 0
            self._sweep_at = 0.0
        return bool(found)

    def _sweep(self) -> bool:
        """Walks through the bodies in the order of their numbers: deletes bodies that no page has,
        and sums up the others, so that no query reads all of them. Bodies that other limits delete
        behind the walk still count in this one."""
        if self._clock() < self._sweep_at:
            return False
        bodies = PageBody.objects.filter(pk__gt=self._last)
        window = bodies.order_by("pk")[:WINDOW]
        end = window.aggregate(end=Max("pk"))["end"]
        if end is None:
            limit = settings.KEEP_PAGES_SIZE * MIB
            # While pages are being deleted, the sum still has them.
            if self._excess <= 0 and settings.KEEP_PAGES_SIZE:
                self._excess = max(0, self._size - limit)
            self._last = self._size = 0
            self._sweep_at = self._clock() + SWEEP_EVERY
            return self._excess > 0
        bodies = bodies.filter(pk__lte=end)
        with transaction.atomic():
            unused = bodies.filter(~Exists(pages_of_body()), used_at__lt=Now() - self._unused)
            unused._raw_delete(unused.db)
        if settings.KEEP_PAGES_SIZE:
            used = bodies.filter(Exists(pages_of_body()), segment=None)
            self._size += used.aggregate(taken=Sum("stored", default=0))["taken"]
        self._last = end
        return True


def held_pages() -> set[int]:
    """The numbers of the pages that live cases hold. Raises django.db.Error."""
    live = CaseSpider.objects.filter(CaseSpider.LIVE)
    return {number for numbers in live.values_list("held", flat=True) for number in numbers}


def pages_of_body() -> QuerySet[KeptPage]:
    return KeptPage.objects.filter(body=OuterRef("pk"))


def _delete(rows: QuerySet[KeptPage]) -> int:
    with transaction.atomic():
        locked = rows.select_for_update(of=("self",), skip_locked=True)
        found = [*locked.values_list("pk", flat=True)[:BATCH]]
        gone = KeptPage.objects.filter(pk__in=found)
        gone._raw_delete(gone.db)
    return len(found)
