"""cancel: ends a task early."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlservice.accounts.journal import change
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.tasks.submit import cancel


class Command(ServiceCommand):
    help = "Ends a task without fetching its remaining requests."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        change("cancel", cancel, options["id"], command=True)
        self.stdout.write(f"task {options['id']} is being cancelled")
