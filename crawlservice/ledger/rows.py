"""Rows: inserts pages and items of outcomes into either database. The unique rid decides which run
of a request counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import orjson
from django.db import connection as default_connection
from django.db import transaction

from crawlframe.items.encode import clean_text
from crawlframe.items.key_order import order_of
from crawlframe.items.models import label_of
from crawlframe.request.record import without_hops
from crawlframe.request.request import pack_admissions, unpack_admissions
from crawlframe.run.ledger import Recorded
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CANCELLED, EXCLUDED
from crawlservice.models import MODEL, VERSION, Item, Page
from crawlservice.tasks.progress.stats import as_json

T = TypeVar("T")

PAGE, ITEM = Page._meta.db_table, Item._meta.db_table

# Column of the page table -> PostgreSQL type. follow_ups and request are bytes, hex on the way.
PAGE_COLUMNS = {
    "rid": "uuid",
    "task_id": "bigint",
    "url": "text",
    "callback": "text",
    "state": "text",
    "reason": "text",
    "detail": "text",
    "status": "smallint",
    "depth": "integer",
    "attempts": "smallint",
    "deliveries": "smallint",
    "size": "bigint",
    "fetch_ms": "integer",
    "items": "integer",
    "version": "text",
    "follow_ups": "text",
    "request": "text",
}
Columns = dict[str, str]
BYTES = ("follow_ups", "request")
# Only where a page has some.
RARE = {
    "stats": ("jsonb", attrgetter("results.stats")),
    "redirects": ("jsonb", attrgetter("fetch.redirects")),
    "landing": ("jsonb", attrgetter("fetch.landing")),
    "usage": ("jsonb", attrgetter("fetch.usage")),
    "error_group": ("bigint", attrgetter("error_group")),
    "exchange": ("jsonb", attrgetter("fetch.exchange")),
}
CALLBACK, REASON = 100, 60  # maximum characters of the columns of these names
MAX_SMALLINT = 32767  # the largest smallint
MAX_REDIRECTS, MAX_TARGET = 20, 2000  # redirects of a page that are kept, and characters of each

# PostgreSQL takes up to 256 MiB as one jsonb value.
MAX_ARRAY = 16 << 20  # bytes of one JSON array of rows, unless a single row is larger
MAX_ASKED = 500  # rids in one query
MAX_PACKED = 16 << 20  # bytes of follow-ups, above which they are written separately

# One statement is one transaction and one round trip. An item goes in with its page, or not at all.
POSTGRES = """
WITH won AS (
    INSERT INTO {page} ({columns})
    SELECT {values} FROM jsonb_to_recordset(%s::jsonb) AS row({types})
    ON CONFLICT (rid) DO NOTHING RETURNING rid
), items AS (
    INSERT INTO {item} (rid, task_id, ordinal, data, version, model, key_order)
    SELECT rid, task_id, ordinal, data, version, coalesce(model, ''), coalesce(key_order, '')
    FROM jsonb_to_recordset(%s::jsonb)
    AS row(rid uuid, task_id bigint, ordinal integer, data jsonb, version text, model text,
           key_order text)
    JOIN won USING (rid) ORDER BY rid, ordinal
)
SELECT rid FROM won
"""
POSTGRES_FOLLOW_UPS = f"UPDATE {PAGE} SET follow_ups = %s WHERE rid = %s"
SQLITE_ITEMS = (
    f"INSERT INTO {ITEM} (rid, task_id, ordinal, data, version, model)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)


def insert(outcomes: list[Outcome]) -> set[bytes]:
    """Writes the rows of requests that have none, and their items, in one transaction. Returns the
    rids of those requests. Raises django.db.Error."""
    rare = {name: kind for name, (kind, value) in RARE.items() if any(map(value, outcomes))}
    columns = PAGE_COLUMNS | rare
    if default_connection.vendor == "postgresql":
        return _insert_postgres(outcomes, columns)
    return _insert_sqlite(outcomes, columns)


@cache
def _postgres(columns: tuple[tuple[str, str], ...]) -> str:
    names = [name for name, _ in columns]
    return POSTGRES.format(
        page=PAGE,
        item=ITEM,
        columns=", ".join(names),
        values=", ".join(f"decode({name}, 'hex')" if name in BYTES else name for name in names),
        types=", ".join(f"{name} {kind}" for name, kind in columns),
    )


@cache
def _sqlite(columns: tuple[str, ...]) -> str:
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {PAGE} ({names}) VALUES ({marks})"


def _insert_postgres(outcomes: list[Outcome], columns: Columns) -> set[bytes]:
    """One statement if it is not too long, otherwise several in one transaction."""
    statement, chunks = _postgres((*columns.items(),)), [*_chunks(outcomes, columns)]
    simple = len(chunks) == 1 and not chunks[0].long
    with nullcontext() if simple else transaction.atomic(), default_connection.cursor() as cursor:
        won: set[bytes] = set()
        for chunk in chunks:
            cursor.execute(statement, [_array(chunk.pages), _array(chunk.items)])
            won.update(rid.bytes for (rid,) in cursor.fetchall())
            for rid, packed in chunk.long.items():
                if rid.bytes in won:
                    cursor.execute(POSTGRES_FOLLOW_UPS, [packed, rid])
    return won


class _Chunk(NamedTuple):
    """Rows for one statement, as JSON objects. ``long``: follow-ups that are written separately."""

    pages: list[bytes]
    items: list[bytes]
    long: dict[UUID, bytes]


def _chunks(outcomes: list[Outcome], columns: Columns) -> Iterator[_Chunk]:
    """Chunks of at most MAX_ARRAY bytes, unless a single outcome is larger."""
    chunk, size = _Chunk([], [], {}), 0
    for outcome in outcomes:
        row = dict(zip(columns, _row(outcome, columns), strict=True))
        rid, long = row["rid"], None
        if len(row["follow_ups"] or b"") > MAX_PACKED:
            long, row["follow_ups"] = row["follow_ups"], None
        for column in BYTES:
            row[column] = row[column] and row[column].hex()
        page, items = orjson.dumps(row), [orjson.dumps(item) for item in _json_items(outcome)]
        mine = len(page) + sum(map(len, items))
        if chunk.pages and size + mine > MAX_ARRAY:
            yield chunk
            chunk, size = _Chunk([], [], {}), 0
        chunk.pages.append(page)
        chunk.items.extend(items)
        if long is not None:
            chunk.long[rid] = long
        size += mine
    yield chunk


def _json_items(outcome: Outcome) -> Iterator[dict[str, Any]]:
    for rid, task, ordinal, data, version, model in _items(outcome):
        item = {
            "rid": rid.hex(),
            "task_id": task,
            "ordinal": ordinal,
            "data": orjson.Fragment(data),
            "version": version,
        }
        more = {"model": model, "key_order": order_of(orjson.loads(data))}
        yield item | {name: value for name, value in more.items() if value}


def _array(rows: list[bytes]) -> str:
    return f"[{b','.join(rows).decode()}]"


def _insert_sqlite(outcomes: list[Outcome], columns: Columns) -> set[bytes]:
    """SQLite has one writer: during our transaction no row is added between select and insert."""
    with transaction.atomic(), default_connection.cursor() as cursor:
        taken = set(read([outcome.rid for outcome in outcomes]))
        new = {outcome.rid: outcome for outcome in outcomes if outcome.rid not in taken}
        rows = [_row(outcome, columns) for outcome in new.values()]
        if rows:
            sized = len(PAGE_COLUMNS)
            pages = [[r[0].hex, *r[1:sized], *map(_json, r[sized:])] for r in rows]
            cursor.executemany(_sqlite((*columns,)), pages)
        items = [
            (rid.hex(), task, n, data.decode(), version, model)
            for outcome in new.values()
            for rid, task, n, data, version, model in _items(outcome)
        ]
        if items:
            cursor.executemany(SQLITE_ITEMS, items)
    return set(new)


def _row(outcome: Outcome, columns: Columns) -> list[Any]:
    failed = outcome.verdict is Verdict.ERROR
    return [
        UUID(bytes=outcome.rid),
        outcome.task,
        clean_text(outcome.url),
        clean_text(outcome.callback)[:CALLBACK],
        outcome.verdict.value,
        clean_text(outcome.reason)[:REASON],
        clean_text(outcome.detail),
        outcome.fetch.status,
        outcome.depth,
        min(outcome.attempts, MAX_SMALLINT),
        min(outcome.deliveries, MAX_SMALLINT),
        outcome.fetch.size,
        outcome.fetch.fetch_ms,
        len(outcome.results.items),
        _version(outcome),
        pack_admissions(outcome.results.follow_ups) if outcome.results.follow_ups else None,
        without_hops(outcome.record) if failed else None,
        *(_rare(outcome, name) for name in RARE if name in columns),
    ]


def _rare(outcome: Outcome, name: str) -> Any:
    if name == "stats":
        return outcome.results.stats and as_json(outcome.results.stats)
    if name == "usage":
        return outcome.fetch.usage
    if name == "exchange":
        return outcome.fetch.exchange
    if name == "error_group":
        return outcome.error_group or None
    if name == "landing":
        found = outcome.fetch.landing if outcome.verdict is Verdict.DONE else None
        return found and [found[0].hex(), clean_text(found[1])[:MAX_TARGET]]
    hops = outcome.fetch.redirects[:MAX_REDIRECTS]
    return [[status, clean_text(url)[:MAX_TARGET]] for status, url in hops] or None


def _items(outcome: Outcome) -> Iterator[tuple[bytes, int, int, bytes, str, str]]:
    version, models = _version(outcome), outcome.results.models or {}
    for ordinal, data in enumerate(outcome.results.items):
        model = label_of(models[ordinal].instance)[:MODEL] if ordinal in models else ""
        yield outcome.rid, outcome.task, ordinal, data, version, model


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _version(outcome: Outcome) -> str:
    return clean_text(outcome.version)[:VERSION]


def read(rids: list[bytes]) -> dict[bytes, Recorded]:
    """The existing rows of these requests. Raises django.db.Error."""
    if not rids:
        return {}
    rows = Page.objects.filter(rid__in=[UUID(bytes=rid) for rid in rids])
    columns = ("rid", "state", "reason", "follow_ups", "items", "landing")
    return {
        rid.bytes: Recorded(
            state == Page.State.ERROR,
            unpack_admissions(packed) if packed else [],
            items,
            state == Page.State.ERROR and reason == CANCELLED,
            excluded=state == Page.State.ERROR and reason in EXCLUDED,
            landing=landed(landing),
        )
        for rid, state, reason, packed, items, landing in rows.values_list(*columns)
    }


def recorded_now(outcome: Outcome) -> Recorded:
    """The row that was just written for an outcome."""
    failed = outcome.verdict is Verdict.ERROR
    return Recorded(
        failed,
        outcome.results.follow_ups,
        len(outcome.results.items),
        outcome.cancelled,
        new=True,
        excluded=outcome.excluded,
        landing=None if failed else outcome.fetch.landing,
    )


def landed(stored: list[str] | None) -> tuple[bytes, str] | None:
    """The rid and the URL of the target of a page's redirects, as its row has them."""
    return None if stored is None else (bytes.fromhex(stored[0]), stored[1])


def recorded(rids: Collection[bytes]) -> set[bytes]:
    """The rids among these that have a ledger row. Raises django.db.Error."""
    found: set[bytes] = set()
    for some in batched(rids, MAX_ASKED):
        rows = Page.objects.filter(rid__in=[UUID(bytes=rid) for rid in some])
        found.update(rid.bytes for rid in rows.values_list("rid", flat=True))
    return found


def batched(things: Iterable[T], most: int) -> Iterator[list[T]]:
    """Lists of at most so many."""
    left = iter(things)
    while some := [*islice(left, most)]:
        yield some
