"""Store: the ledger over Django's connection. One transaction per batch of outcomes: pages, items
and follow-ups; the unique rid decides which run of a request counts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import DataError, Error, IntegrityError, OperationalError, transaction
from django.db import connection as default_connection
from django.db.models import Count, Max, Q, Sum
from django.db.models.functions import Now

from crawlframe import faults
from crawlframe.frontier import Counts
from crawlframe.items import clean_text
from crawlframe.ledger import LedgerAway, LedgerRefused, Recorded, TaskSpec
from crawlframe.outcome import CANCELLED, Outcome, Verdict
from crawlframe.request import pack_admissions, unpack_admissions
from crawlservice.connections.watch import NoWatch, Watch
from crawlservice.models import VERSION, Event, Item, Page, Task
from crawlservice.tasks.outcomes import KINDS, Decision, Ending, decide

log = logging.getLogger(__name__)

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
BYTES = ("follow_ups", "request")
CALLBACK, REASON = 100, 60  # characters that the columns of these names take
SMALL = 32767  # the largest smallint
TOO_MUCH = "54"  # class of PostgreSQL's errors: the statement is above a limit of the program

# PostgreSQL takes up to 256 MiB as one jsonb value.
MAX_ARRAY = 16 << 20  # bytes of one JSON array of rows, unless a single row is larger
MAX_PACKED = 16 << 20  # bytes of follow-ups, above which they go apart

# One statement is one transaction and one round trip. An item goes in with its page, or not at all.
POSTGRES = """
WITH won AS (
    INSERT INTO {page} ({columns})
    SELECT {values} FROM jsonb_to_recordset(%s::jsonb) AS row({types})
    ON CONFLICT (rid) DO NOTHING RETURNING rid
), items AS (
    INSERT INTO {item} (rid, task_id, ordinal, data, version)
    SELECT rid, task_id, ordinal, data, version FROM jsonb_to_recordset(%s::jsonb)
    AS row(rid uuid, task_id bigint, ordinal integer, data jsonb, version text)
    JOIN won USING (rid) ORDER BY rid, ordinal
)
SELECT rid FROM won
""".format(
    page=PAGE,
    item=ITEM,
    columns=", ".join(PAGE_COLUMNS),
    values=", ".join(f"decode({c}, 'hex')" if c in BYTES else c for c in PAGE_COLUMNS),
    types=", ".join(f"{column} {kind}" for column, kind in PAGE_COLUMNS.items()),
)
POSTGRES_FOLLOW_UPS = f"UPDATE {PAGE} SET follow_ups = %s WHERE rid = %s"
SQLITE_PAGES = "INSERT INTO {table} ({columns}) VALUES ({marks})".format(
    table=PAGE, columns=", ".join(PAGE_COLUMNS), marks=", ".join(["%s"] * len(PAGE_COLUMNS))
)
SQLITE_ITEMS = (
    f"INSERT INTO {ITEM} (rid, task_id, ordinal, data, version) VALUES (%s, %s, %s, %s, %s)"
)
END = (
    f"UPDATE {Task._meta.db_table} SET state = %s, outcome = %s, reason = %s, finished_at = %s, "
    "na = %s, nf = %s, ne = %s, cancelled = %s, items = %s, unwritten = %s WHERE id = %s"
)


class DjangoLedger:
    """The engine's Ledger on this thread's Django connection."""

    def __init__(self, watch: Watch | None = None) -> None:
        """``watch``: the one over this process's connections."""
        self._watch = watch or NoWatch()

    @property
    def waits(self) -> str:
        return self._watch.waits

    def task(self, task: int) -> TaskSpec | None:
        with _named_errors():
            row = Task.objects.filter(pk=task).values("spider", "arguments", "priority").first()
        return row and TaskSpec(task, row["spider"], row["arguments"], row["priority"])

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        # Sorted, so that two workers with some of the same requests cannot deadlock. A request that
        # came to this worker twice counts once.
        unique = {outcome.rid: outcome for outcome in outcomes}
        ordered = sorted(unique.values(), key=lambda outcome: outcome.rid)
        with _named_errors():
            insert = (
                _insert_postgres if default_connection.vendor == "postgresql" else _insert_sqlite
            )
            faults.at("commit.before", OperationalError)
            won = insert(ordered)
            faults.at("commit.after", OperationalError, default_connection.close)
            lost = [outcome.rid for outcome in ordered if outcome.rid not in won]
            recorded = _read(lost)
        for outcome in ordered:
            if outcome.rid in won:
                failed = outcome.verdict is Verdict.ERROR
                recorded[outcome.rid] = Recorded(
                    failed, outcome.follow_ups, len(outcome.items), outcome.cancelled
                )
        return recorded

    def finish(self, tasks: Mapping[int, Counts], strays: int = 0) -> set[int]:
        """``strays``: rows of each task that are known to belong to no admitted request."""
        with _named_errors():
            faults.at("finish.before", OperationalError)
            with transaction.atomic():
                ended = _end(tasks, strays)
            faults.at("finish.after", OperationalError, default_connection.close)
        return ended

    def close(self) -> None:
        default_connection.close()


def _end(tasks: Mapping[int, Counts], strays: int) -> set[int]:
    pages = Page.objects.filter(task_id__in=tasks).values_list("task_id")
    deepest = Max("depth", filter=Q(state=Page.State.DONE))
    sums = pages.annotate(rows=Count("*"), sum=Sum("items"), deepest=deepest)
    held = {pk: found for pk, *found in sums}
    # In order, so that two who end some of the same tasks cannot deadlock.
    locked = Task.objects.filter(pk__in=tasks).order_by("pk").select_for_update()
    known = {task.pk: task for task in locked.defer("seeds").annotate(clock=Now())}
    ended, changes, events = set(), [], []
    for pk, counts in tasks.items():
        rows, items, depth = held.get(pk, (0, 0, None))
        task, missing = known.get(pk), counts.na - (rows - strays)
        if counts.nr > 0 or not _may_end(task, missing, counts):
            continue
        ended.add(pk)
        if task is not None and task.state in Task.ACTIVE:
            change, event = _ended(task, counts, items, depth, missing)
            changes.append(change)
            events.append(event)
    if changes:
        with default_connection.cursor() as cursor:
            cursor.executemany(END, changes)
        Event.objects.bulk_create(events)
    for event in events:
        if event.kind == Event.Kind.FAILED:
            log.warning("task %d has failed: %s", event.task_id, event.reason)
    return ended


def _may_end(task: Task | None, missing: int, counts: Counts) -> bool:
    """``missing``: the number of admitted requests that have no ledger row yet. Those of cancelled
    requests are written later (settlement.py), and some of them had a row already: of a run whose
    worker died before it told the frontier."""
    if task and task.state in (Task.State.CANCELLING, Task.State.CANCELLED) and counts.cancelled:
        return missing <= counts.cancelled
    return missing == 0


def _ended(
    task: Any, counts: Counts, items: int, depth: int | None, missing: int
) -> tuple[list[Any], Event]:
    """The values of END for a task, which has the database's ``clock``, and the event."""
    _, na, nf, ne, *_ = counts
    if task.state == Task.State.CANCELLING:
        after, decided = Task.State.CANCELLED, Decision(Task.Outcome.CANCELLED)
    else:
        end = Ending(na, nf, ne, items, counts.limited, depth, counts.cancelled)
        after, decided = Task.State.FINISHED, decide(task, end)
    outcome, reason = decided.outcome.value, decided.reason
    now = default_connection.ops.adapt_datetimefield_value(task.clock)
    lacks = counts.cancelled and after == Task.State.CANCELLED
    unwritten = max(0, missing) if lacks else None
    change = [after.value, outcome, reason, now, na, nf, ne, counts.cancelled, items, unwritten]
    event = Event(task=task, kind=KINDS[decided.outcome], outcome=outcome, reason=reason)
    return [*change, task.pk], event


def _insert_postgres(outcomes: list[Outcome]) -> set[bytes]:
    """What is not too long for one statement is one; else several are one transaction."""
    chunks = [*_chunks(outcomes)]
    simple = len(chunks) == 1 and not chunks[0].long
    with nullcontext() if simple else transaction.atomic(), default_connection.cursor() as cursor:
        won: set[bytes] = set()
        for chunk in chunks:
            cursor.execute(POSTGRES, [_array(chunk.pages), _array(chunk.items)])
            won.update(rid.bytes for (rid,) in cursor.fetchall())
            for rid, packed in chunk.long.items():
                if rid.bytes in won:
                    cursor.execute(POSTGRES_FOLLOW_UPS, [packed, rid])
    return won


class _Chunk(NamedTuple):
    """Rows for one statement, as JSON objects. ``long``: follow-ups that go apart."""

    pages: list[bytes]
    items: list[bytes]
    long: dict[UUID, bytes]


def _chunks(outcomes: list[Outcome]) -> Iterator[_Chunk]:
    """Pieces of at most MAX_ARRAY bytes, if no single outcome has more."""
    chunk, size = _Chunk([], [], {}), 0
    for outcome in outcomes:
        row = dict(zip(PAGE_COLUMNS, _row(outcome), strict=True))
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
    for rid, task, ordinal, data, version in _items(outcome):
        yield {
            "rid": rid.hex(),
            "task_id": task,
            "ordinal": ordinal,
            "data": orjson.Fragment(data),
            "version": version,
        }


def _array(rows: list[bytes]) -> str:
    return f"[{b','.join(rows).decode()}]"


def _insert_sqlite(outcomes: list[Outcome]) -> set[bytes]:
    """SQLite has one writer: in our transaction nobody adds a row between look and insert."""
    with transaction.atomic(), default_connection.cursor() as cursor:
        taken = set(_read([outcome.rid for outcome in outcomes]))
        new = {outcome.rid: outcome for outcome in outcomes if outcome.rid not in taken}
        rows = [_row(outcome) for outcome in new.values()]
        if rows:
            cursor.executemany(SQLITE_PAGES, [[row[0].hex, *row[1:]] for row in rows])
        items = [
            (rid.hex(), task, n, data.decode(), version)
            for outcome in new.values()
            for rid, task, n, data, version in _items(outcome)
        ]
        if items:
            cursor.executemany(SQLITE_ITEMS, items)
    return set(new)


def _row(outcome: Outcome) -> list[Any]:
    failed = outcome.verdict is Verdict.ERROR
    return [
        UUID(bytes=outcome.rid),
        outcome.task,
        clean_text(outcome.url),
        clean_text(outcome.callback)[:CALLBACK],
        outcome.verdict.value,
        clean_text(outcome.reason)[:REASON],
        clean_text(outcome.detail),
        outcome.status,
        outcome.depth,
        min(outcome.attempts, SMALL),
        min(outcome.deliveries, SMALL),
        outcome.size,
        outcome.fetch_ms,
        len(outcome.items),
        _version(outcome),
        pack_admissions(outcome.follow_ups) if outcome.follow_ups else None,
        outcome.record if failed else None,
    ]


def _items(outcome: Outcome) -> Iterator[tuple[bytes, int, int, bytes, str]]:
    version = _version(outcome)
    for ordinal, data in enumerate(outcome.items):
        yield outcome.rid, outcome.task, ordinal, data, version


def _version(outcome: Outcome) -> str:
    return clean_text(outcome.version)[:VERSION]


def _read(rids: list[bytes]) -> dict[bytes, Recorded]:
    if not rids:
        return {}
    rows = Page.objects.filter(rid__in=[UUID(bytes=rid) for rid in rids])
    columns = ("rid", "state", "reason", "follow_ups", "items")
    return {
        rid.bytes: Recorded(
            state == Page.State.ERROR,
            unpack_admissions(packed) if packed else [],
            items,
            state == Page.State.ERROR and reason == CANCELLED,
        )
        for rid, state, reason, packed, items in rows.values_list(*columns)
    }


@contextmanager
def _named_errors() -> Any:
    """Django's database errors as the engine's: away (try again) or refused (never)."""
    try:
        yield
    except (DataError, IntegrityError, ValueError, TypeError, OverflowError) as error:
        # The last three: a value for which the driver has no form.
        raise LedgerRefused(" ".join(str(error).split())) from None
    except Error as error:  # also a server that only reads, or whose tables are being changed
        default_connection.close()
        text = " ".join(str(error).split())
        if (getattr(error.__cause__, "pgcode", None) or "").startswith(TOO_MUCH):
            raise LedgerRefused(text) from None
        raise LedgerAway(text) from None
