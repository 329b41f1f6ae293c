"""retry: runs the failed requests of a task again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.tasks.retry import retry


class Command(ServiceCommand):
    help = "Runs the failed requests of an ended task again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        failed = retry(options["id"])
        record("retry", task=options["id"], command=True, requests=failed)
        self.stdout.write(f"task {options['id']} runs again, with {failed:,} failed requests")
