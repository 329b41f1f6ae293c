"""resume: resumes a task."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlservice.accounts.journal import change
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.tasks.submit import resume


class Command(ServiceCommand):
    help = "Resumes a paused task, and tries parked requests again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        change("resume", resume, options["id"], command=True)
        self.stdout.write(f"task {options['id']} runs again")
