"""Rows of kept pages, written in the transactions of the ledger's rows.

A body is kept once, under the digest of its bytes. Each page that has it sets its ``used_at``,
which locks its row, and only bodies that were not used for some time are deleted (retention.py). So
a page never names a body that is gone, which the foreign key ensures besides."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgpack
import orjson
from django.db import connection as default_connection
from django.db.backends.utils import CursorWrapper

from crawlframe.base.exact_json import dumps
from crawlframe.errors import PageDamaged
from crawlframe.items.encode import clean_text
from crawlframe.pages.copy import PageCopy, Results
from crawlframe.pages.stored import Packer, digest_of, unpack
from crawlframe.response.stored_page import StoredPage
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant
from crawlservice.models import PAGE_HOST, TAG, Item, KeptPage, Page, PageBody

SIZE = 8  # bytes in front of the packed list: its size
BODY, PAGE = PageBody._meta.db_table, KeptPage._meta.db_table
METHOD, REASON, MODIFIED, SAMPLE = 20, 60, 100, 100  # characters of the columns of these names
# Column -> PostgreSQL type. Those in BYTES are bytes, hex on the way.
BODY_COLUMNS = {
    "digest": "text",
    "size": "bigint",
    "stored": "bigint",
    "segment_id": "bigint",
    '"offset"': "bigint",
    "length": "bigint",
}
PAGE_COLUMNS = {
    "task_id": "bigint",
    "rid": "uuid",
    "url": "text",
    "host": "text",
    "method": "text",
    "status": "smallint",
    "reason": "text",
    "headers": "jsonb",
    "address": "text",
    "key": "text",
    "etag": "text",
    "modified": "text",
    "record": "text",
    "signature": "text",
    "follow_ups": "text",
    "sample": "text",
    "fetched_at": "timestamptz",
}
BYTES = ("digest", "key", "record", "signature", "follow_ups")
# The row of a body that is there already is locked, and given out.
AGAIN_BODY = "ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at RETURNING digest, id"
# A request that is retried has a page of its earlier run.
_NEW = ", ".join(
    f"{name} = excluded.{name}" for name in (*PAGE_COLUMNS, "body_id") if name != "rid"
)
AGAIN_PAGE = f"ON CONFLICT (rid) DO UPDATE SET {_NEW}"


def _values(columns: dict[str, str]) -> str:
    given = [f"decode({name}, 'hex')" if name in BYTES else name for name in columns]
    now = {"fetched_at": "coalesce(fetched_at, CURRENT_TIMESTAMP)"}
    return ", ".join(now.get(name, name) for name in given)


def _types(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


# One statement for bodies, which are one value of bytes, and pages. Sorted, so that two
# transactions cannot wait for each other.
POSTGRES = f"""
WITH body AS (
    INSERT INTO {BODY} ({", ".join(BODY_COLUMNS)}, data, used_at)
    SELECT {_values(BODY_COLUMNS)},
        CASE WHEN start IS NOT NULL THEN substring(%s::bytea FROM start FOR stored::integer) END,
        CURRENT_TIMESTAMP
    FROM jsonb_to_recordset(%s::jsonb) AS row({_types(BODY_COLUMNS)}, start integer)
    ORDER BY digest {AGAIN_BODY}
)
INSERT INTO {PAGE} ({", ".join(PAGE_COLUMNS)}, body_id)
SELECT {_values(PAGE_COLUMNS)}, body.id
FROM jsonb_to_recordset(%s::jsonb) AS row({_types(PAGE_COLUMNS)}, body text, place integer)
JOIN body ON body.digest = decode(row.body, 'hex') ORDER BY place {AGAIN_PAGE}
"""
# As Django writes times, with which these are compared.
NOW_SQLITE = "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"
SQLITE_BODY = f"""
INSERT INTO {BODY} ({", ".join(BODY_COLUMNS)}, data, used_at)
VALUES ({"%s, " * (len(BODY_COLUMNS) + 1)}{NOW_SQLITE}) {AGAIN_BODY}
"""
SQLITE_PAGE = f"""
INSERT INTO {PAGE} ({", ".join(PAGE_COLUMNS)}, body_id)
VALUES ({"%s, " * (len(PAGE_COLUMNS) - 1)}coalesce(%s, {NOW_SQLITE}), %s) {AGAIN_PAGE}
"""
MAX_BYTES = 8 << 20  # of bodies in one statement, unless a single one is larger
MAX_ROWS = 200  # pages in one statement, unless a single body has more
BODY_NAMES = tuple(name.strip('"') for name in BODY_COLUMNS)


class PageRows(Participant):
    """Writes kept pages on this thread's connection."""

    takes = ("results.page",)

    def __init__(self) -> None:
        self._packer = Packer()

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [
            o
            for o in outcomes
            if (page := o.results.page) is not None
            and (o.verdict is Verdict.ERROR or not page.tentative)
        ]

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Compresses bodies that are not yet compressed."""
        for copy in pages_of(outcomes):
            if not copy.digest:
                copy.digest = digest_of(copy.body)
                copy.packed = self._packer.pack(copy.body, copy.coded)
                copy.give()

    def write(self, outcomes: list[Outcome]) -> None:
        different: dict[bytes, Same] = {}
        for place, outcome in enumerate(outcomes):
            if outcome.results.page is not None:
                same = different.setdefault(outcome.results.page.digest, [])
                same.append((place, outcome, outcome.results.page))
        postgres = default_connection.vendor == "postgresql"
        with default_connection.cursor() as cursor:
            for some in _chunks([different[digest] for digest in sorted(different)]):
                (_add_postgres if postgres else _add_sqlite)(cursor, some)


def pages_of(outcomes: list[Outcome]) -> list[PageCopy]:
    """The kept pages of outcomes."""
    return [outcome.results.page for outcome in outcomes if outcome.results.page is not None]


# Pages that have one body, with their outcomes and the places of these.
Same = list[tuple[int, Outcome, PageCopy]]


def _chunks(bodies: list[Same]) -> Iterator[list[Same]]:
    some: list[Same] = []
    size = count = 0
    for same in bodies:
        length = len(same[0][2].packed)
        if some and (size + length > MAX_BYTES or count + len(same) > MAX_ROWS):
            yield some
            some, size, count = [], 0, 0
        some.append(same)
        size += length
        count += len(same)
    yield some


def _add_postgres(cursor: CursorWrapper, bodies: list[Same]) -> None:
    data, rows, pages = bytearray(), [], []
    for same in bodies:
        page = same[0][2]
        row = dict(zip(BODY_NAMES, _body(page), strict=True))
        if page.place is None:
            row["start"] = len(data) + 1  # of SQL, which counts from 1
            data += page.packed
        rows.append(row)
        for place, outcome, page in same:
            values = dict(zip(PAGE_COLUMNS, _row(outcome, page), strict=True))
            pages.append({**values, "body": row["digest"], "place": place})
    cursor.execute(POSTGRES, [bytes(data), _json(rows), _json(pages)])


def _add_sqlite(cursor: CursorWrapper, bodies: list[Same]) -> None:
    numbers = {}
    for same in bodies:
        page = same[0][2]
        cursor.execute(SQLITE_BODY, [*_body(page), None if page.place else page.packed])
        numbers[page.digest] = cursor.fetchone()[1]
    ordered = sorted((one for same in bodies for one in same), key=lambda one: one[0])
    for _, outcome, page in ordered:
        row = dict(zip(PAGE_COLUMNS, _row(outcome, page), strict=True))
        row["rid"] = row["rid"].hex
        row["headers"] = _json(row["headers"])
        if (moment := row["fetched_at"]) is not None:
            row["fetched_at"] = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
        cursor.execute(SQLITE_PAGE, [*row.values(), numbers[page.digest]])


def _json(value: Any) -> str:
    return orjson.dumps(value, default=_hex).decode()


def _hex(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError


def _body(page: PageCopy) -> tuple[Any, ...]:
    if page.place is not None:
        return (page.digest, page.size, page.place.length, *page.place)
    return (page.digest, page.size, len(page.packed), None, None, None)


def _row(outcome: Outcome, page: PageCopy) -> tuple[Any, ...]:
    moment = None if page.fetched_at is None else datetime.fromtimestamp(page.fetched_at, UTC)
    return (
        outcome.task,
        UUID(bytes=outcome.rid),
        clean_text(page.url),
        clean_text(page.host)[:PAGE_HOST],
        clean_text(page.method)[:METHOD],
        page.status,
        clean_text(page.reason or outcome.reason)[:REASON],
        page.headers,
        page.address,
        page.key,
        clean_text(page.etag) if len(page.etag) <= TAG else "",
        clean_text(page.modified) if len(page.modified) <= MODIFIED else "",
        page.record,
        page.signature or None,
        pack_requests(page.requests) if page.signature else None,
        # Good until the database has refused it.
        None if outcome.reason or page.sample is None else clean_text(page.sample)[:SAMPLE],
        moment,
    )


def pack_requests(requests: list[bytes] | None) -> bytes:
    """Records of requests, as they are stored."""
    packed: bytes = msgpack.packb(requests or [])
    return len(packed).to_bytes(SIZE) + Packer().pack(packed)


def results_of(page: StoredPage) -> Results | None:
    """As PageLedger.results. Raises django.db.Error."""
    rows = KeptPage.objects.filter(pk=page.number).exclude(signature=None)
    kept = rows.values_list("rid", "follow_ups").first()
    if kept is None:
        return None
    rid, stored = kept
    done = Page.objects.filter(rid=rid, state=Page.State.DONE).values_list("items", flat=True)
    items = Item.objects.filter(rid=rid).order_by("ordinal").values_list("data", flat=True)
    found = [dumps(data) for data in items]
    if done.first() != len(found):
        return None
    try:
        data = bytes(stored or b"")
        requests = msgpack.unpackb(unpack(data[SIZE:], int.from_bytes(data[:SIZE])))
    except (PageDamaged, ValueError):
        return None
    return Results(found, requests)
