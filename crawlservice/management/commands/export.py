"""export: the items of a task as a file."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from crawlservice.export import check_target, export
from crawlservice.journal import record
from crawlservice.models import Task
from crawlservice.submit import get_task
from crawlservice.terminal import Command as ServiceCommand


class Command(ServiceCommand):
    help = "Writes the items that a task has now to a .jsonl, .csv or .parquet."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "-o", "--output", type=Path, required=True, help="the file; its suffix is the format"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        check_target(options["output"])
        task = get_task(options["id"])
        suffix = options["output"].suffix.removeprefix(".")
        record("export", task=task, command=True, format=suffix)
        written = export(task, options["output"])
        more = f"; it is {task.state}, more may come" if task.state in Task.ACTIVE else ""
        self.stdout.write(
            f"{written:,} items of task {task.pk} written to {options['output']}{more}"
        )
