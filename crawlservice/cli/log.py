"""The log of a task in a terminal, once or until the task has ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import DatabaseError, connection

from crawlservice.models import Task
from crawlservice.tasks.progress import log
from crawlservice.tasks.submit import get_task

LOOK_SECONDS = 0.5  # seconds between two looks
LATE_SECONDS = 2.5  # seconds after the end of a task, in which the last lines arrive

Write = Callable[[str], None]


def print_log(task: int, level: str, write: Write, after: int | None = None) -> int | None:
    """Writes the lines after the one with this number. Returns the number of the last one."""
    if after is None and (dropped := log.dropped(task)):
        write(f"({dropped:,} older lines were dropped)")
    for line in log.lines_of(task, level, after).iterator():
        write(log.as_text(line))
        after = line.pk
    return after


def follow_log(task: int, level: str, write: Write) -> Task:
    """Writes lines until the task has ended, and returns it. While the database is unreachable, it
    waits. Raises UnknownTask."""
    after: int | None = None
    ended = 0.0
    while True:
        try:
            row = get_task(task)
            after = print_log(task, level, write, after)
        except DatabaseError:
            connection.close()
        else:
            if row.state in Task.ACTIVE:
                ended = 0.0
            elif not ended:
                ended = time.monotonic()
            elif time.monotonic() - ended > LATE_SECONDS:
                return row
        time.sleep(LOOK_SECONDS)
