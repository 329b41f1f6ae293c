"""tasks: the latest tasks and their numbers."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlservice.models import Task
from crawlservice.progress import read
from crawlservice.terminal import Command as ServiceCommand
from crawlservice.terminal import task_table


class Command(ServiceCommand):
    help = "Lists tasks, the latest first: NA admitted, NF finished, NE errors, NR remaining."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
        parser.add_argument("--active", action="store_true", help="only those that have not ended")

    def handle(self, *args: Any, **options: Any) -> None:
        tasks = Task.objects.defer("seeds")
        if options["active"]:
            tasks = tasks.filter(state__in=Task.ACTIVE)
        found = read(tasks[: max(0, options["n"])])
        total = tasks.count()
        if not total:
            self.stdout.write("no tasks; start one: python manage.py crawl listings --demo")
            return
        self.console.print(task_table(found))
        if older := max(0, total - len(found)):
            self.stdout.write(f"… {older:,} older ones: -n {total}")
