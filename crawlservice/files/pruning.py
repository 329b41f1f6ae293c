"""Pruning of the file store: files that no page names any more, and files that no page ever named,
because the worker that saved them died. Safe while crawls run: see rows.py."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from crawlframe.errors import StoreError
from crawlframe.files.store import StoreEntry
from crawlservice.connections import clock
from crawlservice.files.download import store
from crawlservice.models import PageFile, StoredFile, Task

BATCH = 200  # files looked at, or deleted, at a time
NOBODY = UUID(int=0)
log = logging.getLogger(__name__)


class FileExtent(NamedTuple):
    files: int = 0
    size: int = 0  # bytes

    def __add__(self, other: object) -> FileExtent:
        if not isinstance(other, FileExtent):
            return NotImplemented
        return FileExtent(self.files + other.files, self.size + other.size)


def unused(age: timedelta) -> QuerySet[StoredFile]:
    """Files that no page names, last saved that long ago, the oldest first."""
    named = PageFile.objects.filter(file=OuterRef("pk"))
    rows = StoredFile.objects.filter(~Exists(named), saved_at__lt=clock.now() - age)
    return rows.order_by("saved_at")


def unknown(age: timedelta) -> Iterator[StoreEntry]:
    """Files of the store that the database does not know, put there that long ago. Raises
    StoreError."""
    before = (clock.now() - age).timestamp()
    found = store().files()
    while batch := [*islice(found, 1000)]:
        known = StoredFile.objects.filter(pk__in=[one.sha256 for one in batch])
        names = {*known.values_list("pk", flat=True)}
        yield from (one for one in batch if one.sha256 not in names and one.saved_at < before)


def prune_unused(age: timedelta, limit: int = BATCH) -> FileExtent:
    """Deletes up to ``limit`` files that no page names. Raises StoreError and django.db.Error."""
    gone = FileExtent()
    for sha256 in [*unused(age).values_list("pk", flat=True)[:limit]]:
        with transaction.atomic():
            rows = unused(age).filter(pk=sha256).order_by()
            # Locked first: rows that a page wrote before are seen then.
            locked = StoredFile.objects.select_for_update().filter(pk=sha256).first()
            if locked is not None and rows.exists():
                store().delete(sha256)
                locked.delete()
                gone += FileExtent(1, locked.size)
    return gone


def prune_unknown(files: Iterable[StoreEntry]) -> FileExtent:
    """Deletes the files that the database still does not know. Raises StoreError and
    django.db.Error."""
    gone = FileExtent()
    for file in files:
        with transaction.atomic():
            # A page that saves this content at the same moment waits for this row.
            row, made = StoredFile.objects.get_or_create(
                pk=file.sha256,
                defaults={"size": file.size, "media_type": "", "task": 0, "page": NOBODY},
            )
            if made:
                store().delete(file.sha256)
                row.delete()
                gone += FileExtent(1, file.size)
    return gone


def forget_removed_tasks() -> int:
    """Deletes rows of tasks that are gone: processes of an older release leave them. Returns how
    many."""
    rows = PageFile.objects.filter(~Exists(Task.objects.filter(pk=OuterRef("task"))))
    return rows._raw_delete(rows.db) or 0


def prune_old() -> bool:
    """A step of the leading steward: deletes a batch of files that CRAWLFRAME_KEEP_FILES no longer
    keeps. Returns whether there may be more. Raises django.db.Error."""
    if not settings.KEEP_FILES:
        return False
    try:
        gone = prune_unused(timedelta(days=settings.KEEP_FILES))
    except StoreError as error:
        log.warning("files that no page names are kept: %s", error)
        return False
    return gone.files == BATCH
