"""The log of a task: the latest lines that its spider logged and printed. Lines beyond the bounds
are dropped, the oldest first, and counted."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from django.db import connection, transaction
from django.db.models import F, QuerySet

from crawlframe.items.encode import clean_text
from crawlframe.run.ledger import LogLine as Line
from crawlservice.models import LogLine, Task, TaskLog
from crawlservice.models.ledger import LOGGER
from crawlservice.tasks.results.task_rows import of_task

MAX_LINES = 5_000  # of a task
MAX_SIZE = 4 << 20  # bytes of the texts and URLs of a task
SHARE = 0.9  # of the bounds, when they are exceeded: it must not happen at every line

LEVELS = {name.lower(): getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR")}

COUNT = f"""
INSERT INTO {TaskLog._meta.db_table} (task_id, lines, size, dropped) VALUES (%s, %s, %s, %s)
ON CONFLICT (task_id) DO UPDATE SET
    lines = {TaskLog._meta.db_table}.lines + excluded.lines,
    size = {TaskLog._meta.db_table}.size + excluded.size,
    dropped = {TaskLog._meta.db_table}.dropped + excluded.dropped
"""

COLUMNS = "task_id, at, level, logger, rid, url, text, worker"
POSTGRES = f"""
INSERT INTO {LogLine._meta.db_table} ({COLUMNS})
SELECT {COLUMNS} FROM ROWS FROM (jsonb_to_recordset(%s::jsonb) AS (
    task_id bigint, at timestamptz, level smallint, logger text, rid uuid, url text, text text,
    worker text
)) WITH ORDINALITY ORDER BY ordinality
"""
SQLITE = f"INSERT INTO {LogLine._meta.db_table} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"

# The oldest line that is kept, and how many lines and bytes are.
SIZE = {
    "postgresql": "octet_length(text) + octet_length(url)",
    "sqlite": "length(CAST(text AS BLOB)) + length(CAST(url AS BLOB))",
}
OLD = f"""
SELECT min(id), count(*), max(size) FROM (
    SELECT id, row_number() OVER newest AS place, sum({{size}}) OVER newest AS size
    FROM {LogLine._meta.db_table} WHERE task_id = %s WINDOW newest AS (ORDER BY id DESC)
) AS line WHERE place <= %s AND size <= %s
"""


class LogRow(NamedTuple):
    """A line as it is inserted."""

    task_id: int
    at: Any
    level: int
    logger: str
    rid: str | None
    url: str
    text: str
    worker: str


# -- writing --------------------------------------------------------------------------------------


def add(lines: Iterable[Line], lost: Mapping[int, int]) -> None:
    """Adds lines. ``lost``: dropped lines, by task. Lines of deleted tasks are left out. Raises
    django.db.Error."""
    rows: dict[int, list[LogRow]] = defaultdict(list)
    for line in lines:
        rows[line.task].append(_row(line))
    with transaction.atomic(), connection.cursor() as cursor:
        known = Task.objects.filter(pk__in={*rows, *lost})
        tasks = sorted(known.values_list("pk", flat=True))  # so that two workers cannot deadlock
        counts = [(task, len(rows[task]), _size(rows[task]), lost.get(task, 0)) for task in tasks]
        # First, as this locks the log of each task: so its lines appear in the order of their
        # numbers, and a reader that continues after the last misses none.
        cursor.executemany(COUNT, counts)
        _insert(cursor, [row for task in tasks for row in rows[task]])
        for log in TaskLog.objects.filter(task__in=tasks):
            if log.lines > MAX_LINES or log.size > MAX_SIZE:
                _shorten(cursor, log)


def _row(line: Line) -> LogRow:
    return LogRow(
        line.task,
        datetime.fromtimestamp(line.at, UTC),
        max(0, min(line.level, 1000)),
        clean_text(line.logger)[:LOGGER],
        line.rid.hex() or None,
        clean_text(line.url),
        clean_text(line.text),
        clean_text(line.worker),
    )


def _size(rows: Iterable[LogRow]) -> int:
    return sum(len(row.text.encode()) + len(row.url.encode()) for row in rows)


def _insert(cursor: Any, rows: list[LogRow]) -> None:
    """Inserts in one statement: Django's objects cost several times as much."""
    if connection.vendor == "postgresql":
        cursor.execute(POSTGRES, [orjson.dumps([row._asdict() for row in rows]).decode()])
    else:
        adapt = connection.ops.adapt_datetimefield_value
        cursor.executemany(SQLITE, [row._replace(at=adapt(row.at)) for row in rows])


def _shorten(cursor: Any, log: TaskLog) -> None:
    """Deletes the oldest lines."""
    size = SIZE[connection.vendor]
    cursor.execute(OLD.format(size=size), [log.task_id, SHARE * MAX_LINES, SHARE * MAX_SIZE])
    ((last, lines, kept),) = cursor.fetchall()
    old = LogLine.objects.filter(task=log.task_id)
    dropped = (old if last is None else old.filter(pk__lt=last)).order_by()._raw_delete(old.db) or 0
    TaskLog.objects.filter(pk=log.pk).update(
        lines=lines, size=kept or 0, dropped=F("dropped") + dropped
    )


# -- reading --------------------------------------------------------------------------------------


def at_least(level: str) -> QuerySet[LogLine]:
    """Lines of all tasks with this level or a higher one; "debug": all."""
    rows = LogLine.objects.all()
    return rows if level == "debug" else rows.filter(level__gte=LEVELS[level])


def lines_of(task: int, level: str = "debug", after: int | None = None) -> QuerySet[LogLine]:
    """The lines of a task, oldest first; with ``after``, only lines with a greater number."""
    return of_task(at_least(level), task, after=after)


def latest(task: int, count: int) -> list[LogLine]:
    """The newest lines, newest first."""
    return list(of_task(LogLine.objects.all(), task, newest=True)[:count])


def dropped(task: int) -> int:
    """The number of dropped lines of the task."""
    return TaskLog.objects.filter(task=task).values_list("dropped", flat=True).first() or 0


def level_name(level: int) -> str:
    """``INFO`` for 20; ``Level 25`` where there is no name."""
    return logging.getLevelName(level)


def as_text(line: LogLine) -> str:
    """One line for people: time, level, text, URL, worker. Further lines are indented."""
    where = "".join(f"  [{part}]" for part in (line.url, line.worker) if part)
    first, *more = line.text.split("\n")
    head = (
        f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03} {level_name(line.level):7}"
    )
    return "\n".join([f"{head} {first}{where}", *(f"    {part}" for part in more)])
