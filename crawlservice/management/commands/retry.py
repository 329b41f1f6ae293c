"""retry: runs the failed requests of a task again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlservice.journal import record
from crawlservice.retry import retry
from crawlservice.terminal import Command as ServiceCommand


class Command(ServiceCommand):
    help = "Runs those requests of an ended task again that ended in error."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        failed = retry(options["id"])
        record("retry", task=options["id"], command=True, requests=failed)
        self.stdout.write(f"task {options['id']} runs again, with {failed:,} failed requests")
