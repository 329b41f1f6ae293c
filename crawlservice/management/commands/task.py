"""task: one task in full, once or until it ends."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlservice.cli.report import report
from crawlservice.cli.terminal import Command as ServiceCommand
from crawlservice.cli.terminal import watch
from crawlservice.tasks import outcomes
from crawlservice.tasks.submit import get_task


class Command(ServiceCommand):
    help = "Shows one task."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--follow",
            action="store_true",
            help="until it ends (Ctrl-C leaves); exits with 1 when it has failed, with 3 when it "
            "was cancelled",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        task = get_task(options["id"])
        if options["follow"]:
            try:
                task = watch(task.pk, self.console).task
            except KeyboardInterrupt:
                return
        self.console.print(report(task))
        if options["follow"]:
            outcomes.check(task)
