"""task show: one task, or its log."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, connection

from crawlframe.errors import ArgumentError
from crawlservice.cli.command import ServiceCommand, add_json
from crawlservice.cli.listing import plain
from crawlservice.cli.task.report import report
from crawlservice.cli.task.table import as_json
from crawlservice.cli.terminal import watch
from crawlservice.models import Task
from crawlservice.tasks.progress import log, outcomes
from crawlservice.tasks.progress.log import LEVELS
from crawlservice.tasks.submit import get_task

LOOK_SECONDS = 0.5  # seconds between two looks
LATE_SECONDS = 2.5  # seconds after the end of a task within which its last lines arrive
Write = Callable[[str], None]


class ShowTask(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--follow",
            action="store_true",
            help="until it ends (Ctrl-C leaves); exits with 1 when it has failed, with 3 when it "
            "was cancelled",
        )
        parser.add_argument("--log", action="store_true", help="logs and prints of its spider")
        parser.add_argument(
            "--level", choices=[*LEVELS], help="with --log: only lines of at least this level"
        )
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        task = get_task(options["id"])
        if options["json"] and (options["log"] or options["follow"]):
            raise ArgumentError("--json goes with neither --follow nor --log")
        if options["level"] and not options["log"]:
            raise ArgumentError("--level is about the log; add --log")
        if options["log"]:
            self._show_log(task, options["level"] or "debug", options["follow"])
            return
        if options["json"]:
            self.show_json(as_json([task])[0])
            return
        if options["follow"]:
            try:
                task = watch(task.pk, self.console).task
            except KeyboardInterrupt:
                return
        self.console.print(report(task))
        if options["follow"]:
            outcomes.check(task)

    def _show_log(self, task: Task, level: str, follow: bool) -> None:
        def write(text: str) -> None:
            self.stdout.write(plain(text))

        if not follow:
            print_log(task.pk, level, write)
            return
        try:
            task = follow_log(task.pk, level, write)
        except KeyboardInterrupt:
            return
        outcomes.check(task)


def print_log(task: int, level: str, write: Write, after: int | None = None) -> int | None:
    """Writes the lines after this number. Returns the number of the last line."""
    if after is None and (dropped := log.dropped(task)):
        write(f"({dropped:,} older lines were dropped)")
    for line in log.lines_of(task, level, after).iterator():
        write(log.as_text(line))
        after = line.pk
    return after


def follow_log(task: int, level: str, write: Write) -> Task:
    """Writes lines until the task has ended, and returns it. While the database is unreachable, it
    waits. Raises NotFound."""
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
