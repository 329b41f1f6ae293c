"""Results of tasks: items, pages and links are written to files; old tasks are deleted."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from crawlframe.robots.usage import ABOUT
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand, add_yes
from crawlservice.cli.terminal import add_output
from crawlservice.connections import clock
from crawlservice.exports.source import held
from crawlservice.models import Item, Page, Task
from crawlservice.pages import layer_files
from crawlservice.tasks.removal import RemovalExtent, ended_before, extent, remove
from crawlservice.tasks.results.export import STDOUT, check_target, export, place_of
from crawlservice.tasks.results.item_filter import FORM, read_filters
from crawlservice.tasks.submit import get_task

MAX_DAYS = 36_500  # days


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


class PruneTasks(ServiceCommand):
    help = (
        "Deletes tasks that ended long ago, with their pages, items and events. Nodes may "
        "keep running. If it is interrupted, run it again to continue."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--tasks-older-than", type=_days, metavar="DAYS", dest="days",
            help="delete tasks that ended at least this many days ago",
        )  # fmt: skip
        which.add_argument(
            "--task", type=int, nargs="+", metavar="ID", dest="tasks", help="delete these tasks"
        )
        parser.add_argument("--spider", default="", help="only tasks of this spider")
        add_yes(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        moment = clock.now() - timedelta(days=options["days"] or 0)
        tasks = ended_before(moment, options["spider"])
        of = f" of {options['spider']}" if options["spider"] else ""
        which = f"tasks{of} that ended before {moment:%Y-%m-%d %H:%M} UTC"
        if options["tasks"] is not None:
            tasks = tasks.filter(pk__in=options["tasks"])
            which += " among the given ones"
        found = extent(tasks)
        if not found.tasks:
            self.stdout.write(f"there are no {which}")
            return
        self.stdout.write(f"{_text(found)}: {which}")
        if self.only_shows(options, "delete them"):
            return
        if options["yes"] or self.asks("Delete them for good?"):
            self._remove(tasks, found, options)
        else:
            raise CommandError("nothing was deleted")

    def _held(self, group: Collection[int]) -> Collection[int]:
        """The tasks that exports still need; prints them."""
        found = held(group)
        for task, names in found.items():
            self.stdout.write(
                f"task {task} is kept: export {', '.join(names)} has not exported all of it"
            )
        return found

    def _remove(self, tasks: Any, found: RemovalExtent, options: dict[str, Any]) -> None:
        gone = RemovalExtent()
        try:
            with self.progress("deleting", sum(found)) as advance:
                for some in remove(tasks, self._held):
                    gone = RemovalExtent(*map(sum, zip(gone, some, strict=True)))
                    advance(sum(some))
        finally:
            if any(gone):
                asked = {name: options[name] for name in ("days", "spider") if options[name]}
                told = {**asked, **gone._asdict()}
                record("prune", command=True, **told)
                self.done(f"deleted: {_text(gone)}", None)


def _days(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > MAX_DAYS:
        raise ArgumentTypeError(f"{text!r} must be a whole number of days, 0 to {MAX_DAYS}")
    return int(text)


def _text(much: RemovalExtent) -> str:
    return f"{much.tasks:,} tasks, {much.pages:,} pages, {much.items:,} items"
