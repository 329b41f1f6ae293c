"""layers: the pages and links of a task, merged by layer and domain."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.models import Task
from crawlservice.pages.layer_files import export
from crawlservice.tasks.submit import get_task


class Command(ServiceCommand):
    help = (
        "Writes the pages of a task and the links that they led to, in one file each for every "
        "layer (depth) and part (hash of the registered domain)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--dir", type=Path, required=True, metavar="DIR", help="where to; made if missing"
        )
        parser.add_argument(
            "--parts", type=int, default=1, metavar="N", help="parts by domain; by default 1"
        )
        parser.add_argument(
            "--html", action="store_true", help="with the text of the pages that are kept"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        task = get_task(options["id"])
        record("export layers", task=task, command=True, parts=options["parts"])
        written = export(task, options["dir"], options["parts"], html=options["html"])
        more = f"; it is {task.state}, more may come" if task.state in Task.ACTIVE else ""
        if written.removed:
            more += f"; other files of an earlier run that were removed there: {written.removed:,}"
        self.stdout.write(
            f"{written.pages:,} pages and {written.links:,} links of task {task.pk} written to "
            f"{written.files:,} files in {options['dir']}{more}"
        )
