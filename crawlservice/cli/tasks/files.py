"""task export, task layers: items, pages and links of a task as files."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from crawlframe.robots.usage import ABOUT
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.terminal import add_output
from crawlservice.models import Item, Page, Task
from crawlservice.pages import layer_files
from crawlservice.tasks.results.export import STDOUT, check_target, export, place_of
from crawlservice.tasks.results.item_filter import FORM, read_filters
from crawlservice.tasks.submit import get_task


class ExportItems(ServiceCommand):
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
        total = Item.objects.filter(task=task).count() * (2 if suffix == ".csv" else 1)
        with self.progress("writing", total) as advance:
            written = export(task, path, chosen, usage=usage, fields=fields, read=advance)
        more = f"; it is {task.state}, more may come" if task.state in Task.ACTIVE else ""
        told = f"{written:,} items of task {task.pk} written to {place_of(path)}{more}"
        (self.stderr if path == STDOUT else self.stdout).write(told)


class ExportLayers(ServiceCommand):
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
        place, parts, html = options["dir"], options["parts"], options["html"]
        with self.progress("writing", Page.objects.filter(task=task).count()) as advance:
            written = layer_files.export(task, place, parts, html=html, each=advance)
        more = f"; it is {task.state}, more may come" if task.state in Task.ACTIVE else ""
        if written.removed:
            more += f"; other files of an earlier run that were removed there: {written.removed:,}"
        self.stdout.write(
            f"{written.pages:,} pages and {written.links:,} links of task {task.pk} written to "
            f"{written.files:,} files in {options['dir']}{more}"
        )
