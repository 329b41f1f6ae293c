"""export: the items of a task as a file."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from crawlframe.robots.usage import ABOUT
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import add_output
from crawlservice.models import Task
from crawlservice.tasks.results.export import STDOUT, check_target, export, place_of
from crawlservice.tasks.results.item_filter import FORM, read_filters
from crawlservice.tasks.submit import get_task


class Command(ServiceCommand):
    help = "Writes the items that a task has now to a .jsonl, .csv or .parquet file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        add_output(parser, required=True)
        parser.add_argument(
            "--usage", metavar="FILTER",
            help="only items of pages that say this about their use, such as ai-train!=no "
            f"({FORM}; names: {', '.join(ABOUT)}); of several, separated by commas, all must hold",
        )  # fmt: skip

        parser.add_argument(
            "--fields", metavar="NAMES", default="",
            help="only these fields, in this order, such as title,price; by default all",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        path, chosen = options["output"], options["format"]
        suffix = check_target(path, chosen)
        usage = read_filters(options["usage"])
        task = get_task(options["id"])
        fields = [name.strip() for name in options["fields"].split(",") if name.strip()]
        details = {"usage": options["usage"]} if usage else {}
        if fields:
            details["fields"] = ", ".join(fields)
        record("export", task=task, command=True, format=suffix.removeprefix("."), **details)
        written = export(task, path, chosen, usage=usage, fields=fields)
        more = f"; it is {task.state}, more may come" if task.state in Task.ACTIVE else ""
        told = f"{written:,} items of task {task.pk} written to {place_of(path)}{more}"
        (self.stderr if path == STDOUT else self.stdout).write(told)
