"""Bodies in the archive: each worker writes them to its segment before their rows are written. A
place is in a row only if its record is durable.

Captures: kept pages as they are archived. The bodies of requests are left out: they may contain a
password.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

from django.conf import settings
from django.db.models import QuerySet

from crawlframe import __version__
from crawlframe.errors import ArchiveError, BadRequest, MissingCode, PageDamaged
from crawlframe.pages.copy import PageCopy, StoredBody
from crawlframe.pages.stored import digest_of
from crawlframe.request.record import read_head
from crawlframe.run.outcome import Outcome
from crawlframe.warc import (
    Archive,
    Capture,
    CapturePlace,
    Original,
    Redirection,
    SegmentWriter,
    open_archive,
)
from crawlframe.warc.records import date_of
from crawlservice.connections.clock import now
from crawlservice.models import KeptPage, PageBody, PageSegment
from crawlservice.pages.rows import PageRows, pages_of

HIDDEN = "…"  # in place of the headers that were too many
log = logging.getLogger(__name__)
SOFTWARE = f"crawlframe/{__version__}"


def archive() -> Archive | None:
    """The archive of this installation; None if pages are kept in the database."""
    return _opened(settings.CRAWLFRAME)


_opened = lru_cache(maxsize=8)(open_archive)


def opened(segment: str) -> Archive:
    """The archive that a segment is in. Raises ArchiveError."""
    found = archive()
    if found is None:
        raise ArchiveError(
            f"bodies of kept pages are in {segment}; set CRAWLFRAME_PAGES to where that is, and "
            "restart"
        )
    return found


def check_segments(pages: QuerySet[KeptPage]) -> None:
    """Raises ArchiveError if a segment of these pages cannot be read now."""
    names = pages.order_by().exclude(body__segment=None).values_list("body__segment__name")
    for (name,) in names.distinct():
        opened(name).open(name).close()


class ArchivedPageRows(PageRows):
    """Writes kept pages, and their bodies into an archive; those of samples, which are not as their
    sites sent them, into the database."""

    def __init__(self, archive: Archive) -> None:
        super().__init__()
        self._archive = archive
        self._node = settings.CRAWLFRAME.node
        self._writer = SegmentWriter(
            archive.directory,
            node=self._node,
            worker=os.getpid(),
            software=SOFTWARE,
            max_age=archive.max_age,
        )
        self._segment = "", 0  # name and number of the row
        self._original = lru_cache(maxsize=1024)(self._read_original)

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Gives each page the place of its body. New captures are written, a body only if it is not
        there yet. Raises django.db.Error and ArchiveError; then call it again."""
        super().prepare([o for o in outcomes if o.results.page and o.results.page.sample])
        pages = [page for page in pages_of(outcomes) if not page.sample]
        for page in pages:
            page.digest = page.digest or digest_of(page.body)
        # Each time: known bodies may be deleted while the database is away.
        known = _known({page.digest for page in pages})
        new = [page for page in pages if not page.archived]
        # A page that came from the store was not fetched.
        if fetched := [p for p in new if p.fetched_at is None or p.digest not in known]:
            self._append(fetched, known)
        for page in new:
            page.archived = True
            page.give()
        for page in pages:
            if page.digest in known:
                page.place = known[page.digest][0]

    def left(self) -> float | None:
        return self._writer.left()

    def tick(self) -> None:
        self._try(self._writer.tick)

    def close(self) -> None:
        self._try(self._writer.close)

    def _try(self, finish: Callable[[], None]) -> None:
        """Finishes a segment. If that fails, the node's steward finishes it, at the latest when
        this process is gone. Nothing is lost."""
        try:
            finish()
        except ArchiveError as error:
            log.warning("%s", error)

    def _append(self, new: list[PageCopy], known: dict[bytes, tuple[StoredBody, str]]) -> None:
        at = now().timestamp()
        first: dict[bytes, int] = {}
        captures: list[Capture] = []
        for number, page in enumerate(new):
            original = None
            if page.digest in known:
                (_, offset, length), name = known[page.digest]
                original = self._original(CapturePlace(name, offset, length))
            elif page.digest in first:
                same = captures[first[page.digest]]
                original = Original(same.url, date_of(same.fetched_at))
            else:
                first[page.digest] = number
            captures.append(capture_of(page, page.body, page.fetched_at or at, original))
        places = self._writer.append(captures)
        self._writer.sync()
        segment = self._number_of(places[0].segment)
        for page in new:
            page.fetched_at = page.fetched_at or at
            if page.digest in first:
                _, offset, length = places[first[page.digest]]
                page.place = StoredBody(segment, offset, length)

    def _number_of(self, segment: str) -> int:
        """The number of a segment's row, which is made if it is missing."""
        name, number = self._segment
        if segment != name:
            row, _ = PageSegment.objects.get_or_create(name=segment, defaults={"node": self._node})
            number = row.pk
            self._segment = segment, number
        return number

    def _read_original(self, place: CapturePlace) -> Original:
        try:
            record = self._archive.read_here(place)
        except (ArchiveError, PageDamaged):
            record = None
        return Original() if record is None else Original(record.url, record.date)


def _known(digests: Collection[bytes]) -> dict[bytes, tuple[StoredBody, str]]:
    """The archived bodies among these, with the names of their segments."""
    rows = PageBody.objects.filter(digest__in=digests, segment__isnull=False)
    columns = rows.values_list("digest", "segment", "offset", "length", "segment__name")
    return {
        bytes(digest): (StoredBody(segment or 0, offset or 0, length or 0), name or "")
        for digest, segment, offset, length, name in columns
    }


def capture_of(
    page: PageCopy | KeptPage, body: bytes, fetched_at: float, original: Original | None = None
) -> Capture:
    headers = page.headers
    return Capture(
        page.url,
        page.status,
        _pairs(headers.get("received", ())),
        body,
        fetched_at,
        method=page.method,
        sent=_pairs(headers.get("sent", ())),
        address=page.address,
        rendered=bool(headers.get("rendered")),
        redirects=_redirects(page) if headers.get("redirects") else (),
        original=original,
    )


def _pairs(headers: Iterable[Iterable[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in headers if name != HIDDEN)


def _redirects(page: PageCopy | KeptPage) -> tuple[Redirection, ...]:
    try:
        url = read_head(bytes(page.record)).url
    except (ValueError, BadRequest, MissingCode):
        return ()
    found = []
    for status, target in page.headers["redirects"]:
        found.append(Redirection(url, status, target))
        url = target
    return tuple(found)
