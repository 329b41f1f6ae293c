"""Segments: the WARC files of kept pages. Each node finishes and uploads its own; the leading
steward deletes segments without bodies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef

from crawlframe.errors import ArchiveError
from crawlframe.warc import SUFFIX, Archive, is_segment, node_of, recover
from crawlservice.chores.threads import Work
from crawlservice.models import PageBody, PageSegment
from crawlservice.pages.archived import archive

State = PageSegment.State
log = logging.getLogger(__name__)

PAUSE = 10.0  # seconds between two looks for segments that are left open, or finished
EMPTY_FOR = 600.0  # seconds without a body after which a segment is deleted
BATCH = 100  # segments deleted at a time


class NodeSegments(Work):
    """Segments of one node, finished in a thread of their own, because files may be large."""

    def __init__(self, archive: Archive, node: str) -> None:
        self._archive = archive
        self._node = node
        self._trouble = ""  # why the last round failed
        self._known: set[str] = set()  # finished segments that were seen

    def step(self) -> float:
        """A ``tick`` of the thread. Raises django.db.Error."""
        text = ""
        try:
            self.tick()
        except ArchiveError as error:
            text = " ".join(str(error).split())
            if text != self._trouble:
                log.warning("segments of pages wait: %s", text)
        self._trouble = text
        return PAUSE

    def tick(self) -> None:
        """Finishes segments of dead workers, uploads finished ones, and records both. Raises
        ArchiveError and django.db.Error."""
        recover(self._archive.directory, self._node)
        # Workers may have died without a row; a segment without a row is never deleted.
        names = {path.name for path in self._archive.directory.glob(f"*{SUFFIX}")} - self._known
        mine = [name for name in names if is_segment(name) and node_of(name) == self._node]
        rows = [PageSegment(name=name, node=self._node) for name in mine]
        PageSegment.objects.bulk_create(rows, ignore_conflicts=True)
        self._known |= names
        self._archive.upload()
        done = State.UPLOADED if self._archive.uploads else State.FINISHED
        for row in PageSegment.objects.filter(node=self._node, state=State.OPEN):
            size = self._archive.size(row.name)
            if size is not None:
                row.state, row.size = done, size
                row.save(update_fields=["state", "size"])

    def finish(self) -> None:
        """The last step of a node, so that other nodes can read its segments."""
        try:
            self.tick()
        except (ArchiveError, DatabaseError) as error:
            log.warning("segments of pages wait for the next start of this node: %s", error)


class SegmentRetention:
    """Retention of segments by the leading steward. ``clock`` returns seconds."""

    def __init__(self, archive: Archive, clock: Callable[[], float] = time.monotonic) -> None:
        self._archive = archive
        self._clock = clock
        self._empty: dict[int, float] = {}  # number of a segment -> since when

    def step(self) -> bool:
        """Deletes a batch of segments that were empty long enough. Returns whether there may be
        more. Raises django.db.Error."""
        bodies = PageBody.objects.filter(segment=OuterRef("pk"))
        rows = PageSegment.objects.exclude(state=State.OPEN).filter(~Exists(bodies))
        found = [*rows.order_by("pk").values_list("pk", "name")[:BATCH]]
        now = self._clock()
        # A worker may have found a body there just before it was deleted.
        self._empty = {pk: self._empty.get(pk, now) for pk, _ in found}
        due = [(pk, name) for pk, name in found if now - self._empty[pk] >= EMPTY_FOR]
        try:
            for pk, name in due:
                self._delete(pk, name)
        except ArchiveError as error:
            log.warning("a segment of pages is kept: %s", error)
            return False
        return len(due) == BATCH

    @transaction.atomic
    def _delete(self, pk: int, name: str) -> None:
        """The row first, which is there again if the file cannot be deleted."""
        row = PageSegment.objects.select_for_update(skip_locked=True).filter(pk=pk)
        if row.first() is not None and not PageBody.objects.filter(segment=pk).exists():
            PageSegment.objects.filter(pk=pk)._raw_delete(row.db)
            self._archive.delete(name)


def segments_of_node() -> NodeSegments | None:
    """None if pages are kept in the database."""
    opened = archive()
    return None if opened is None else NodeSegments(opened, settings.CRAWLFRAME.node)
