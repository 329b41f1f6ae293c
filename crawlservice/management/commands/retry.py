"""retry: runs failed requests again: those of a task, or of a spider over its tasks."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain
from crawlservice.connections import clock
from crawlservice.models import BulkRetry
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.bulk_retry import WantedErrors
from crawlservice.tasks.retry import retry

WHO: dict[str, Any] = {"command": True}
UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Command(ServiceCommand):
    help = "Runs the failed requests of an ended task again, or those of a spider over its tasks."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int, nargs="?", help="a task; or give --spider")
        parser.add_argument("--spider", metavar="NAME", help="over all its tasks that have ended")
        parser.add_argument(
            "--since",
            type=read_since,
            metavar="TIME",
            help="with --spider: errors since 2026-01-31T18:00 (UTC), or of the last 90m, 2h, 3d",
        )
        parser.add_argument("--reason", help="with --spider: only errors with this reason")
        parser.add_argument(
            "--group", type=int, metavar="ID", help="with --spider: only errors with this cause"
        )
        parser.add_argument(
            "--yes", action="store_true", help="with --spider: do not ask before it starts"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        of_spider = [name for name in ("since", "reason", "group", "yes") if options[name]]
        if options["id"] is not None and not options["spider"]:
            if of_spider:
                raise CommandError(f"--{of_spider[0]} needs --spider, without the number of a task")
            failed = retry(options["id"])
            record("retry", task=options["id"], requests=failed, **WHO)
            self.stdout.write(f"task {options['id']} runs again, with {failed:,} failed requests")
        elif options["spider"] and options["id"] is None:
            self._of_spider(options)
        else:
            raise CommandError("give the number of a task, or --spider NAME; not both")

    def _of_spider(self, options: dict[str, Any]) -> None:
        since = options["since"]
        if isinstance(since, timedelta):
            since = clock.now() - since
        wanted = WantedErrors(options["spider"], options["reason"] or "", options["group"], since)
        found = bulk_retry.extent(wanted)
        tasks = f"{found.errors:,} errors in {len(found.tasks):,} ended tasks of {wanted.spider}"
        self.stdout.write(plain(tasks))
        if found.active:
            self.stdout.write(
                f"left out: {found.active_errors:,} errors of {found.active:,} tasks that still run"
            )
        if found.tasks and not options["yes"] and not self._agrees():
            self.stdout.write("nothing was retried")
            return
        row = bulk_retry.start(wanted, WHO)
        while bulk_retry.step(row.pk):
            self._tell(bulk_retry.get(row.pk))
        row = bulk_retry.get(row.pk)
        self._tell(row)
        for task, why in row.skipped:
            self.stdout.write(plain(f"task {task} was not retried: {why}"))

    def _agrees(self) -> bool:
        if not sys.stdin.isatty():
            again = command("retry --spider NAME --yes")
            raise CommandError(f"there is nobody to ask; to retry them, use {again}")
        self.stdout.write("Retry them? [y/N] ", ending="")
        self.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _tell(self, row: BulkRetry) -> None:
        done = f"{row.position:,} of {row.all_tasks:,} tasks"
        self.stdout.write(f"{done}: {row.retried_errors:,} of {row.all_errors:,} requests")


def read_since(text: str) -> datetime | timedelta:
    """``2026-01-31T18:00`` (UTC), or how long ago: ``90m``, ``2h``, ``3d``."""
    if found := re.fullmatch(r"(\d{1,4})([mhd])", text):
        return timedelta(**{UNITS[found[2]]: int(found[1])})
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or not 1970 < moment.year < 2200:
        raise ArgumentTypeError(f"{text!r} is no time; give 2026-01-31T18:00, 90m, 2h or 3d")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
