"""Rows of kept pages, written in the transactions of the ledger's rows.

A body is kept once, under the digest of its bytes. Each page that has it sets its ``used_at``,
which locks its row, and only bodies that were not used for some time are deleted (retention.py). So
a page never names a body that is gone, which the foreign key ensures besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection as default_connection

from crawlframe.items import clean_text
from crawlframe.outcome import Outcome, Verdict
from crawlframe.pages.copy import PageCopy
from crawlframe.pages.packing import Packer, digest_of
from crawlframe.warc import Archive
from crawlservice.models import PAGE_HOST, TAG, KeptPage, PageBody
from crawlservice.pages.archived import ArchivedBodies
from crawlservice.pages.dictionaries import Dictionaries
from crawlservice.pages.results import pack_requests

BODY, PAGE = PageBody._meta.db_table, KeptPage._meta.db_table
METHOD, REASON, MODIFIED = 20, 60, 100  # characters of the columns of these names

# The row of a body that is there already is locked, and given out.
BODIES = f"""
INSERT INTO {BODY}
(digest, size, data, stored, dictionary_id, segment_id, "offset", length, used_at) VALUES {{values}}
ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at RETURNING digest, id
"""
# A request that is retried has a page of its earlier run.
COLUMNS = (
    "task_id", "rid", "url", "host", "method", "status", "reason", "headers", "address", "key",
    "etag", "modified", "record", "signature", "follow_ups", "body_id", "fetched_at",
)  # fmt: skip
PAGES = f"""
INSERT INTO {PAGE} ({", ".join(COLUMNS)}) VALUES {{values}}
ON CONFLICT (rid) DO UPDATE SET {", ".join(f"{c} = excluded.{c}" for c in COLUMNS if c != "rid")}
"""
# As Django writes times, with which these are compared.
NOW_SQLITE = "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"
MAX_BYTES = 8 << 20  # of bodies in one statement, unless a single one is larger


class PageRows:
    """Writes them on this thread's connection. ``archive``: where the bodies go, if not into the
    database."""

    def __init__(self, archive: Archive | None = None) -> None:
        self._packer = Packer()
        self._dictionaries = Dictionaries()
        self._archived = None if archive is None else ArchivedBodies(archive)

    def pack(self, outcomes: Iterable[Outcome]) -> None:
        """Compresses what is not yet, or archives it. Raises django.db.Error, ArchiveError."""
        pages = [o.page for o in outcomes if _is_kept(o) and o.page is not None]
        if pages and self._archived is not None:
            self._archived.put(pages)
            return
        new = [page for page in pages if not page.digest]
        if not new:
            return
        known = self._dictionaries.of({page.host for page in new})
        for copy in new:
            dictionary = known.get(copy.host)
            copy.digest = digest_of(copy.body)
            copy.packed = self._packer.pack(copy.body, dictionary)
            copy.dictionary = dictionary[0] if dictionary else None
            copy.give()

    def left(self) -> float | None:
        """Seconds until ``tick`` has something to do; None: nothing."""
        return None if self._archived is None else self._archived.left()

    def tick(self) -> None:
        """Finishes a segment that is old enough."""
        if self._archived is not None:
            self._archived.tick()

    def close(self) -> None:
        """Finishes the segment."""
        if self._archived is not None:
            self._archived.close()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Writes the pages of these outcomes, which are packed, within a transaction. Raises
        django.db.Error."""
        kept = [(o, o.page) for o in outcomes if o.page is not None and _is_kept(o)]
        if not kept:
            return
        bodies: dict[bytes, int] = {}
        different = {page.digest: page for _, page in kept}
        # Sorted, so that two transactions cannot wait for each other.
        for some in _chunks([different[digest] for digest in sorted(different)]):
            bodies |= self._add_bodies(some)
        rows = [_row(outcome, page, bodies[page.digest]) for outcome, page in kept]
        times = "%s" if default_connection.vendor == "sqlite" else "%s::timestamptz"
        marks = f"({', '.join(['%s'] * (len(COLUMNS) - 1))}, coalesce({times}, {_now()}))"
        with default_connection.cursor() as cursor:
            cursor.execute(
                PAGES.format(values=", ".join([marks] * len(rows))),
                [value for row in rows for value in row],
            )

    def _add_bodies(self, pages: Sequence[PageCopy]) -> dict[bytes, int]:
        marks = f"({', '.join(['%s'] * 8)}, {_now()})"
        with default_connection.cursor() as cursor:
            cursor.execute(
                BODIES.format(values=", ".join([marks] * len(pages))),
                [value for page in pages for value in _body(page)],
            )
            return {bytes(digest): number for digest, number in cursor.fetchall()}


def _is_kept(outcome: Outcome) -> bool:
    page = outcome.page
    return page is not None and (outcome.verdict is Verdict.ERROR or not page.tentative)


def _chunks(pages: list[PageCopy]) -> Iterable[list[PageCopy]]:
    some: list[PageCopy] = []
    size = 0
    for page in pages:
        if some and (size + len(page.packed) > MAX_BYTES or len(some) == 200):
            yield some
            some, size = [], 0
        some.append(page)
        size += len(page.packed)
    yield some


def _body(page: PageCopy) -> tuple[Any, ...]:
    if page.place is not None:
        return (page.digest, page.size, None, page.place.length, None, *page.place)
    packed = page.packed
    return (page.digest, page.size, packed, len(packed), page.dictionary, None, None, None)


def _row(outcome: Outcome, page: PageCopy, body: int) -> list[Any]:
    rid = UUID(bytes=outcome.rid)
    sqlite = default_connection.vendor == "sqlite"
    return [
        outcome.task,
        rid.hex if sqlite else rid,
        clean_text(page.url),
        clean_text(page.host)[:PAGE_HOST],
        clean_text(page.method)[:METHOD],
        page.status,
        clean_text(page.reason or outcome.reason)[:REASON],
        orjson.dumps(page.headers).decode(),
        page.address,
        page.key,
        clean_text(page.etag) if len(page.etag) <= TAG else "",
        clean_text(page.modified) if len(page.modified) <= MODIFIED else "",
        page.record,
        page.signature or None,
        pack_requests(page.requests) if page.signature else None,
        body,
        _time(page.fetched_at),
    ]


def _time(seconds: float | None) -> datetime | str | None:
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    sqlite = default_connection.vendor == "sqlite"
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f") if sqlite else moment


def _now() -> str:
    return "CURRENT_TIMESTAMP" if default_connection.vendor == "postgresql" else NOW_SQLITE
