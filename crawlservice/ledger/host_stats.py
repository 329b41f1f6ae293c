"""Statistics of hosts: the counts of workers are added to the rows of hosts in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from django.db import connection, transaction

from crawlframe.items.encode import clean_text
from crawlframe.run.ledger import HostStats
from crawlservice.models import HOST, Host

SMOOTHING = 0.1  # weight of one fetch in the smoothed latency
LOCK_TIMEOUT = "500ms"  # for which the commit thread waits for a row that another process writes
TABLE = Host._meta.db_table
REASON = Host._meta.get_field("last_reason").max_length

# A new row gets a number only if it is new: with DO UPDATE alone each batch would use some up. Two
# batches of one host at a time may compute the latency from the same older one; counts are exact.
ADD = """
INSERT INTO {table}
    (id, name, first_at, last_at, pages, errors, bytes, statuses, latency_ms, last_status,
     last_reason, minute, minute_fetches, before_fetches)
SELECT {id}, row.name, {now}, {now}, row.pages, row.errors, row.bytes, row.statuses,
    COALESCE(old.latency_ms + row.weight * (row.latency_ms - old.latency_ms), row.latency_ms,
             old.latency_ms),
    row.last_status, row.last_reason, {minute}, row.fetches, 0
FROM {rows} LEFT JOIN {table} AS old ON old.name = row.name
WHERE true ORDER BY row.name
ON CONFLICT {target} DO UPDATE SET
    last_at = excluded.last_at,
    pages = {table}.pages + excluded.pages,
    errors = {table}.errors + excluded.errors,
    bytes = {table}.bytes + excluded.bytes,
    statuses = (SELECT COALESCE({as_object}(key, total), '{{}}') FROM (
        SELECT key, SUM({value}) AS total FROM (
            SELECT key, value FROM {each}({table}.statuses) AS was
            UNION ALL SELECT key, value FROM {each}(excluded.statuses) AS more) AS both_
        GROUP BY key) AS sums),
    latency_ms = excluded.latency_ms,
    last_status = excluded.last_status,
    last_reason = CASE WHEN excluded.last_reason = '' THEN {table}.last_reason
                  ELSE excluded.last_reason END,
    minute = excluded.minute,
    minute_fetches = excluded.minute_fetches
        + CASE WHEN {table}.minute = excluded.minute THEN {table}.minute_fetches ELSE 0 END,
    before_fetches = CASE excluded.minute - {table}.minute
        WHEN 0 THEN {table}.before_fetches WHEN 1 THEN {table}.minute_fetches ELSE 0 END
"""
POSTGRES_TYPES = (
    "name text, pages bigint, errors bigint, bytes bigint, statuses jsonb, latency_ms float, "
    "weight float, last_status smallint, last_reason text, fetches bigint"
)
POSTGRES = ADD.format(
    table=TABLE,
    id=f"COALESCE(old.id, nextval(pg_get_serial_sequence('{TABLE}', 'id')))",
    target="(name)",
    now="statement_timestamp()",
    minute="floor(extract(epoch FROM statement_timestamp()) / 60)",
    rows=f"jsonb_to_recordset(%s::jsonb) AS row({POSTGRES_TYPES})",
    as_object="jsonb_object_agg",
    value="value::bigint",
    each="jsonb_each_text",
)
COLUMNS = [column.split()[0] for column in POSTGRES_TYPES.split(", ")]
_FIELDS = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in COLUMNS)
SQLITE = ADD.format(
    table=TABLE,
    id="old.id",
    target="",  # its own number is a conflict here, too
    minute="unixepoch() / 60",
    now="strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
    rows=f"(SELECT {_FIELDS} FROM json_each(%s)) AS row",
    as_object="json_group_object",
    value="value",
    each="json_each",
)


def add(hosts: Mapping[str, HostStats]) -> None:
    """Adds the counts since the last call. The rows are written in the order of their names, so
    that two processes cannot deadlock. Raises django.db.Error."""
    rows = [_row(name, stats) for name, stats in hosts.items() if len(name) <= HOST]
    if not rows:
        return
    statement = POSTGRES if connection.vendor == "postgresql" else SQLITE
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        cursor.execute(statement, [orjson.dumps(rows).decode()])


def _row(name: str, stats: HostStats) -> dict[str, Any]:
    return {
        "name": name,
        "pages": stats.pages,
        "errors": stats.errors,
        "bytes": stats.bytes,
        "statuses": {str(status): n for status, n in stats.statuses.items()},
        "latency_ms": stats.fetch_ms / stats.answered if stats.answered else None,
        "weight": 1 - (1 - SMOOTHING) ** stats.answered,
        "last_status": stats.last_status,
        "fetches": stats.fetches,
        "last_reason": clean_text(stats.last_reason)[:REASON],
    }
