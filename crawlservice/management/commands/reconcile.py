"""reconcile: brings Redis up to what the database knows."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.connections.frontier import frontier
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.models import Task
from crawlservice.tasks.submit import get_task


class Command(ServiceCommand):
    help = (
        "Brings Redis up to what the database knows of tasks: requests that it lost come back, "
        "requests that have a ledger row are completed. Nodes may keep running, and repeating it "
        "changes nothing. Nodes do it by themselves when they find that Redis has lost data."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "ids", type=int, nargs="*", metavar="ID", help="all unfinished tasks by default"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        active = Task.objects.filter(state__in=Task.ACTIVE).order_by("id")
        tasks = [get_task(number) for number in options["ids"]] or [*active]
        for task in tasks:
            started = time.monotonic()
            done = Reconciliation(task, frontier()).run()
            record("reconcile", task=task, command=True)
            self.stdout.write(
                f"task {task.pk}: {done.admitted} requests brought back, {done.completed} of all "
                f"that waited were done already, {time.monotonic() - started:.1f} s"
            )
            self.stdout.flush()
        if not tasks:
            self.stdout.write("there are no unfinished tasks")
