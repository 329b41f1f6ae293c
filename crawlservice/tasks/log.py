"""The log of a task: the latest lines that its spider logged and printed. What exceeds the bounds
is dropped, the oldest first, and counted."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, QuerySet

from crawlframe.items import clean_text
from crawlframe.ledger import LogLine as Line
from crawlservice.models import LogLine, Task, TaskLog
from crawlservice.models.log import LOGGER
from crawlservice.tasks.task_rows import of_task

MAX_LINES = 5_000  # of a task
MAX_SIZE = 4 << 20  # bytes of the texts and URLs of a task
KEPT = 0.9  # of the bounds, when they are exceeded: it must not happen at every line
BATCH = 500

LEVELS = {name.lower(): getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR")}

COUNT = f"""
INSERT INTO {TaskLog._meta.db_table} (task_id, lines, size, dropped) VALUES (%s, %s, %s, %s)
ON CONFLICT (task_id) DO UPDATE SET
    lines = {TaskLog._meta.db_table}.lines + excluded.lines,
    size = {TaskLog._meta.db_table}.size + excluded.size,
    dropped = {TaskLog._meta.db_table}.dropped + excluded.dropped
"""


# -- writing --------------------------------------------------------------------------------------


def add(lines: Iterable[Line], lost: Mapping[int, int]) -> None:
    """Adds lines. ``lost``: how many were dropped before, by task. What belongs to deleted tasks is
    left out. Raises django.db.Error."""
    rows: dict[int, list[LogLine]] = defaultdict(list)
    for line in lines:
        rows[line.task].append(_row(line))
    with transaction.atomic():
        known = Task.objects.filter(pk__in={*rows, *lost})
        tasks = sorted(known.values_list("pk", flat=True))  # so that two workers cannot deadlock
        counts = [(task, len(rows[task]), _size(rows[task]), lost.get(task, 0)) for task in tasks]
        with connection.cursor() as cursor:
            # First, as this locks the log of each task: so its lines appear in the order of their
            # numbers, and a reader that continues after the last one misses none.
            cursor.executemany(COUNT, counts)
        LogLine.objects.bulk_create((row for task in tasks for row in rows[task]), BATCH)
        for log in TaskLog.objects.filter(task__in=tasks):
            if log.lines > MAX_LINES or log.size > MAX_SIZE:
                _shorten(log)


def _row(line: Line) -> LogLine:
    return LogLine(
        task_id=line.task,
        at=datetime.fromtimestamp(line.at, UTC),
        level=max(0, min(line.level, 1000)),
        logger=clean_text(line.logger)[:LOGGER],
        rid=UUID(bytes=line.rid) if line.rid else None,
        url=clean_text(line.url),
        text=clean_text(line.text),
    )


def _size(rows: Iterable[LogLine]) -> int:
    return sum(len(row.text.encode()) + len(row.url.encode()) for row in rows)


def _shorten(log: TaskLog) -> None:
    """Deletes the oldest lines."""
    lines = size = 0
    newest = of_task(LogLine.objects.all(), log.task_id, newest=True)
    for row in newest.only("task_id", "text", "url").iterator(BATCH):
        more = _size([row])
        if lines + 1 > KEPT * MAX_LINES or size + more > KEPT * MAX_SIZE:
            old = LogLine.objects.filter(task=log.task_id, pk__lte=row.pk)
            dropped = old.order_by()._raw_delete(old.db) or 0
            dropped_of = F("dropped") + dropped
            TaskLog.objects.filter(pk=log.pk).update(lines=lines, size=size, dropped=dropped_of)
            return
        lines, size = lines + 1, size + more


# -- reading --------------------------------------------------------------------------------------


def at_least(level: str) -> QuerySet[LogLine]:
    """Lines of all tasks with this level or a higher one; "debug": all."""
    rows = LogLine.objects.all()
    return rows if level == "debug" else rows.filter(level__gte=LEVELS[level])


def lines_of(task: int, level: str = "debug", after: int | None = None) -> QuerySet[LogLine]:
    """The lines of a task, oldest first. ``after``: only those after the one with this number."""
    return of_task(at_least(level), task, after=after)


def latest(task: int, count: int) -> list[LogLine]:
    """The newest lines, newest first."""
    return list(of_task(LogLine.objects.all(), task, newest=True)[:count])


def dropped(task: int) -> int:
    """How many lines of the task were dropped."""
    return TaskLog.objects.filter(task=task).values_list("dropped", flat=True).first() or 0


def level_name(level: int) -> str:
    """``INFO`` for 20; ``Level 25`` where there is no name."""
    return logging.getLevelName(level)


def as_text(line: LogLine) -> str:
    """One line for people: time, level, text, URL. Further lines of the text are indented."""
    where = f"  [{line.url}]" if line.url else ""
    first, *more = line.text.split("\n")
    head = (
        f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03} {level_name(line.level):7}"
    )
    return "\n".join([f"{head} {first}{where}", *(f"    {part}" for part in more)])
