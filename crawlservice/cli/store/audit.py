"""store audit, store reconcile: Redis, the ledger and items agree, or are made to."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Advance, ServiceCommand, add_dry_run
from crawlservice.connections.frontier import frontier
from crawlservice.ledger.audit import Found, audit_cluster, audit_group, groups, sizes
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.models import Page, Task
from crawlservice.tasks.submit import get_task


class Audit(ServiceCommand):
    help = "Checks that counters, queues, ledger and items agree. Exits with 1 if they do not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", type=int, nargs="*", metavar="ID", help="all tasks by default")

    def handle(self, *args: Any, **options: Any) -> None:
        for number in options["ids"]:
            get_task(number)
        problems = audit_cluster(frontier())
        rows = sizes(options["ids"])
        with self.progress("ledger rows", sum(rows.values())) as advance:
            for group in groups(rows):
                tasks = [*Task.objects.filter(pk__in=group).order_by("pk")]
                found = audit_group(tasks, Part(sum(rows[task] for task in group), advance))
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


class Part:
    """A group of ``size`` ledger rows, which is called with the share that is done."""

    def __init__(self, size: int, advance: Advance) -> None:
        self._size = size
        self._advance = advance
        self._share = 0.0

    def __call__(self, share: float) -> None:
        self._advance(self._size * (share - self._share))
        self._share = share


class Reconcile(ServiceCommand):
    help = (
        "Brings Redis up to what the database knows of tasks: requests that it lost come back, "
        "requests that have a ledger row are completed. Nodes may keep running, and repeating it "
        "changes nothing. Nodes do it by themselves when they find that Redis has lost data."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "ids", type=int, nargs="*", metavar="ID", help="all unfinished tasks by default"
        )
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        active = Task.objects.filter(state__in=Task.ACTIVE).order_by("id")
        tasks = [get_task(number) for number in options["ids"]] or [*active]
        if not tasks:
            self.stdout.write("there are no unfinished tasks")
            return
        if options["dry_run"]:
            lost = "; ".join(f"task {task.pk}: {_differs(task)}" for task in tasks)
            self.only_shows(options, f"bring Redis up to the database, {lost}")
            return
        with self.progress("tasks", len(tasks)) as advance:
            for task in tasks:
                started = time.monotonic()
                done = Reconciliation(task, frontier()).run()
                record("reconcile", task=task, command=True)
                advance(1)
                self.stdout.write(
                    f"task {task.pk}: {done.admitted} requests brought back, {done.completed} of "
                    f"all that waited were done already, {time.monotonic() - started:.1f} s"
                )
                self.stdout.flush()
        self.done(f"Redis is up to the database: {len(tasks)} tasks", None)


def _differs(task: Task) -> str:
    """What Redis lacks of a task, by its counts."""
    counts = frontier().counts(task.pk)
    if counts is None:
        return "Redis does not know it"
    rows = Page.objects.filter(task=task).count()
    return f"{rows:,} ledger rows, {counts.nf + counts.ne:,} ended requests in Redis"
