"""tasks: the latest tasks and their numbers."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlframe.base.program import command
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import status, task_table
from crawlservice.models import Task
from crawlservice.tasks.label_rows import labelled
from crawlservice.tasks.progress.progress import read


class Command(ServiceCommand):
    help = "Lists tasks, the latest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--active", action="store_true", help="only those that have not ended")
        which.add_argument(
            "--outcome", choices=Task.Outcome.values, help="only those that ended like this"
        )

        parser.add_argument(
            "--label", metavar="NAME=VALUE", help="only those with this label, such as domain=news"
        )

        parser.add_argument("--watch", type=int, metavar="ID", help="only rounds of this watch")

    def handle(self, *args: Any, **options: Any) -> None:
        tasks = Task.objects.defer("seeds").filter(watch=options["watch"])
        if options["active"]:
            tasks = tasks.filter(state__in=Task.ACTIVE)
        if options["outcome"]:
            tasks = tasks.filter(outcome=options["outcome"])
        if options["label"]:
            tasks = labelled(tasks, options["label"])
        found = read(tasks[: max(0, options["n"])])
        total = tasks.count()
        if not total and options["outcome"]:
            self.stdout.write(f"no task is {status(Task(outcome=options['outcome']))}")
            return
        if not total and options["label"]:
            self.stdout.write(f"no task has the label {options['label']}")
            return
        if not total:
            self.stdout.write(f"no tasks; start one: {command('crawl SPIDER')}")
            return
        self.console.print(task_table(found))
        if older := max(0, total - len(found)):
            self.stdout.write(f"… {older:,} older ones: -n {total}")
