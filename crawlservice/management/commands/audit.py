"""audit: compares counters, queues, ledger and items."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from crawlservice.audit import audit, audit_cluster
from crawlservice.models import Task
from crawlservice.redis import frontier
from crawlservice.submit import get_task
from crawlservice.terminal import Command as ServiceCommand


class Command(ServiceCommand):
    help = "Checks that counters, queues, ledger and items agree. Exits with 1 if they do not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", type=int, nargs="*", metavar="ID", help="all tasks by default")

    def handle(self, *args: Any, **options: Any) -> None:
        problems = audit_cluster(frontier())
        tasks = [get_task(number) for number in options["ids"]] or [*Task.objects.order_by("id")]
        for task in tasks:
            found = audit(task)
            problems += found
            if len(tasks) > 1:  # a large one takes its time
                holds = f"{len(found)} problems" if found else "all holds"
                self.stdout.write(f"task {task.pk}: {holds}")
                self.stdout.flush()
        for problem in problems:
            self.stdout.write(problem)
        if problems:
            raise CommandError(f"{len(problems)} problems in {len(tasks)} tasks and the frontier")
        self.stdout.write(f"all holds: {len(tasks)} tasks and the frontier")
