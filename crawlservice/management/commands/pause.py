"""pause: pauses a task."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlframe.base.program import command
from crawlservice.accounts.journal import change
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.tasks.submit import pause


class Command(ServiceCommand):
    help = "Stops fetching a task's requests until it is resumed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        change("pause", pause, options["id"], command=True)
        self.stdout.write(f"task {options['id']} is paused")
        resume = command(f"resume {options['id']}")
        self.stdout.write(f"Resume it: {resume}")
