"""audit: compares counters, queues, ledger and items."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.connections.frontier import frontier
from crawlservice.ledger.audit import Found, audit_cluster, audit_group, groups, sizes
from crawlservice.models import Task
from crawlservice.tasks.submit import get_task


class Command(ServiceCommand):
    help = "Checks that counters, queues, ledger and items agree. Exits with 1 if they do not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", type=int, nargs="*", metavar="ID", help="all tasks by default")

    def handle(self, *args: Any, **options: Any) -> None:
        for number in options["ids"]:
            get_task(number)
        problems = audit_cluster(frontier())
        rows = sizes(options["ids"])
        progress = ProgressLine(sum(rows.values()))
        for group in groups(rows):
            here = sum(rows[task] for task in group)
            found = audit_group(
                [*Task.objects.filter(pk__in=group).order_by("pk")],
                lambda share, here=here: progress.show(share * here),  # type: ignore[misc]
            )
            progress.advance(here)
            for some in found.values():
                problems += some
            if len(rows) > 1:  # a large one takes its time
                self._print(found)
        for problem in problems:
            self.stdout.write(problem)
        if problems:
            raise CommandError(f"{len(problems)} problems in {len(rows)} tasks and the frontier")
        self.stdout.write(f"all holds: {len(rows)} tasks and the frontier")

    def _print(self, found: Found) -> None:
        for task, problems in found.items():
            holds = f"{len(problems)} problems" if problems else "all holds"
            self.stdout.write(f"task {task}: {holds}")
        self.stdout.flush()


class ProgressLine:
    """A line on the terminal that says how far it is; nothing where there is no terminal."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._done = 0
        self._shows = sys.stderr.isatty()
        self.show(0)

    def advance(self, rows: int) -> None:
        """Counts rows as done; the next output replaces the line."""
        self._done += rows
        if self._shows:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, rows: float) -> None:
        """Shows the progress line; ``rows``: how many of the current group are done."""
        if self._shows and self._rows:
            percent = 100 * (self._done + rows) / self._rows
            sys.stderr.write(f"\r{percent:.0f} % of {self._rows:,} ledger rows\x1b[K")
            sys.stderr.flush()
