"""pages: kept pages as a file."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from crawlframe.warc import FORMATS
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.models import KeptPage, Task
from crawlservice.pages.export import NAMES, PagesExport, suffix_of, write
from crawlservice.tasks.results.export import STDOUT, ExportError, place_of
from crawlservice.tasks.submit import get_task


class Command(ServiceCommand):
    help = "Writes kept pages to a WARC or WACZ file, for replay tools and other archives."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parts = parser.add_subparsers(dest="part", required=True)
        told = "write the pages that are kept of a task, or of all tasks of a spider"
        part = parts.add_parser("export", help=told, description=told)
        part.add_argument("id", type=int, nargs="?", metavar="TASK", help="number of the task")
        part.add_argument("--spider", metavar="NAME", help="all tasks of this spider")
        part.add_argument(
            "-o", "--output", type=Path, required=True, metavar="FILE",
            help=f"the file, {' or '.join(FORMATS)}; - is the standard output",
        )  # fmt: skip
        part.add_argument("--format", choices=[*NAMES], help="by default by the file's suffix")

    def handle(self, *args: Any, **options: Any) -> None:
        number, spider, path = options["id"], options["spider"], options["output"]
        if (number is None) == (spider is None):
            raise ExportError("give either the number of a task or --spider NAME")
        suffix = suffix_of(path, options["format"])
        format = suffix.split(".")[1]
        more = ""
        if number is not None:
            task = get_task(number)
            rows, name = KeptPage.objects.filter(task=task), f"{task.spider}-{task.pk}"
            record("export pages", task=task, command=True, format=format)
            if task.state in Task.ACTIVE:
                more = f"; task {task.pk} is {task.state}, more may come"
        else:
            if not Task.objects.filter(spider=spider).exists():
                raise ExportError(f"there is no task of a spider {spider!r}")
            rows, name = KeptPage.objects.filter(task__spider=spider), spider
            record("export pages", command=True, spider=spider, format=format)
        export = PagesExport(rows)
        write(export, path, suffix, name)
        told = f"{export.given:,} pages written to {place_of(path)}{more}"
        (self.stderr if path == STDOUT else self.stdout).write(told)
