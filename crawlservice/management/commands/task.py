"""task: crawls that were submitted."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from rich.text import Text

from crawlframe.base.program import command
from crawlframe.errors import ArgumentError
from crawlframe.robots.usage import ABOUT
from crawlservice.accounts.journal import change, record
from crawlservice.cli.command import ServiceCommand, add_json, add_yes
from crawlservice.cli.listing import Listing, attributes
from crawlservice.cli.noun import Noun
from crawlservice.cli.report import report
from crawlservice.cli.rerun import Reparse, RetryErrors
from crawlservice.cli.terminal import add_output, plain, status, watch
from crawlservice.connections import clock
from crawlservice.display import duration
from crawlservice.exports.source import held
from crawlservice.models import Item, Page, Task
from crawlservice.pages import layer_files
from crawlservice.tasks import submit
from crawlservice.tasks.label_rows import labelled
from crawlservice.tasks.limits import AUTO, Delay, change_limits
from crawlservice.tasks.progress import log, outcomes
from crawlservice.tasks.progress.log import LEVELS
from crawlservice.tasks.progress.progress import Progress, read
from crawlservice.tasks.removal import RemovalExtent, ended_before, extent, remove
from crawlservice.tasks.results.export import STDOUT, check_target, export, place_of
from crawlservice.tasks.results.item_filter import FORM, read_filters
from crawlservice.tasks.stored_limits import limits_as_written
from crawlservice.tasks.submit import get_task

MAX_DAYS = 36_500  # days
LOOK_SECONDS = 0.5  # seconds between two looks
LATE_SECONDS = 2.5  # seconds after the end of a task within which its last lines arrive
Write = Callable[[str], None]


class ShowTask(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--follow",
            action="store_true",
            help="until it ends (Ctrl-C leaves); exits with 1 when it has failed, with 3 when it "
            "was cancelled",
        )
        parser.add_argument("--log", action="store_true", help="logs and prints of its spider")
        parser.add_argument(
            "--level", choices=[*LEVELS], help="with --log: only lines of at least this level"
        )
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        task = get_task(options["id"])
        if options["json"] and (options["log"] or options["follow"]):
            raise ArgumentError("--json goes with neither --follow nor --log")
        if options["level"] and not options["log"]:
            raise ArgumentError("--level is about the log; add --log")
        if options["log"]:
            self._show_log(task, options["level"] or "debug", options["follow"])
            return
        if options["json"]:
            self.show_json(as_json([task])[0])
            return
        if options["follow"]:
            try:
                task = watch(task.pk, self.console).task
            except KeyboardInterrupt:
                return
        self.console.print(report(task))
        if options["follow"]:
            outcomes.check(task)

    def _show_log(self, task: Task, level: str, follow: bool) -> None:
        def write(text: str) -> None:
            self.stdout.write(plain(text))

        if not follow:
            print_log(task.pk, level, write)
            return
        try:
            task = follow_log(task.pk, level, write)
        except KeyboardInterrupt:
            return
        outcomes.check(task)


class SetTask(ServiceCommand):
    help = "Changes limits of a task, at once on all nodes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--delay",
            type=read_delay,
            metavar="SECONDS",
            help="between two requests to a host, or auto",
        )
        parser.add_argument("--concurrency", type=int, metavar="N", help="in flight per host")
        parser.add_argument(
            "--page-limit", type=int, metavar="N", help="pages of the task; 0: no limit"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = ("delay", "concurrency", "page_limit")
        given = {name: options[name] for name in names if options[name] is not None}
        before = limits_as_written(get_task(options["id"]))
        change_limits(options["id"], {"command": True}, **given)
        undo = " ".join(f"--{name.replace('_', '-')} {before[name]}" for name in given)
        changes = ", ".join(f"{name} {before[name]} -> {value}" for name, value in given.items())
        self.done(f"task {options['id']}: {changes}", f"task set {options['id']} {undo}")


def as_json(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """The form of the API."""
    from crawlservice.api.tasks.tasks import serialized  # with ninja, which takes long to import

    return [task.model_dump(mode="json") for task in serialized(tasks)]


def read_delay(text: str) -> Delay:
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a number of seconds nor auto") from None


def print_log(task: int, level: str, write: Write, after: int | None = None) -> int | None:
    """Writes the lines after this number. Returns the number of the last line."""
    if after is None and (dropped := log.dropped(task)):
        write(f"({dropped:,} older lines were dropped)")
    for line in log.lines_of(task, level, after).iterator():
        write(log.as_text(line))
        after = line.pk
    return after


def follow_log(task: int, level: str, write: Write) -> Task:
    """Writes lines until the task has ended, and returns it. While the database is unreachable, it
    waits. Raises NotFound."""
    after: int | None = None
    ended = 0.0
    while True:
        try:
            row = get_task(task)
            after = print_log(task, level, write, after)
        except DatabaseError:
            connection.close()
        else:
            if row.state in Task.ACTIVE:
                ended = 0.0
            elif not ended:
                ended = time.monotonic()
            elif time.monotonic() - ended > LATE_SECONDS:
                return row
        time.sleep(LOOK_SECONDS)


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


def _state(progress: Progress) -> Text:
    waits = "" if progress.live or progress.ended else " (waits for Redis)"
    return status(progress.task, waits)


TASKS = Listing[Progress](
    "tasks",
    {
        **attributes("id=task.pk"),
        "spider": lambda now: now.task.spider + " (parses again)" * bool(now.task.reparse),
        "state": _state,
        **attributes("items", "errors", "requests=na", "done=nf", "left=nr", "parked"),
        "time": lambda now: Text(duration(now.age), justify="right"),
    },
    "no tasks",
)


class ListTasks(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--active", action="store_true", help="only tasks that have not ended")
        which.add_argument(
            "--outcome", choices=Task.Outcome.values, help="only tasks with this outcome"
        )
        parser.add_argument(
            "--label", metavar="NAME=VALUE", help="only those with this label, such as domain=news"
        )
        parser.add_argument("--watch", type=int, metavar="ID", help="only rounds of this watch")
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        tasks = Task.objects.defer("seeds").filter(watch=options["watch"])
        if options["active"]:
            tasks = tasks.filter(state__in=Task.ACTIVE)
        if options["outcome"]:
            tasks = tasks.filter(outcome=options["outcome"])
        if options["label"]:
            tasks = labelled(tasks, options["label"])
        found = [*tasks.select_related("user")[: max(0, options["n"])]]
        if options["json"]:
            self.show_json({"tasks": as_json(found)})
            return
        total = tasks.count()
        if not total and options["outcome"]:
            self.stdout.write(f"no task is {status(Task(outcome=options['outcome']))}")
        elif not total and options["label"]:
            self.stdout.write(f"no task has the label {options['label']}")
        elif not total:
            self.stdout.write(f"no tasks; start one: {command('crawl SPIDER')}")
        elif found:
            self.show_list(TASKS, read(found), False)
        if older := max(0, total - len(found)):
            self.stdout.write(f"… {older:,} older ones: -n {total}")


class SteerTask(ServiceCommand):
    """``told``: the change of the task. ``undo``: the verb that takes it back."""

    def __init__(self, verb: str, told: str, undo: str = "") -> None:
        super().__init__()
        self._verb, self._told, self._undo = verb, told, undo

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        task = options["id"]
        change(self._verb, getattr(submit, self._verb), task, command=True)
        self.done(f"task {task} {self._told}", self._undo and f"task {self._undo} {task}")


class Command(Noun):
    verbs = {
        "list": ListTasks,
        "show": ShowTask,
        "set": SetTask,
        "pause": partial(SteerTask, "pause", "is paused", "resume"),
        "resume": partial(SteerTask, "resume", "runs again", "pause"),
        "cancel": partial(SteerTask, "cancel", "is being cancelled"),
        "retry": RetryErrors,
        "reparse": Reparse,
        "export": ExportItems,
        "layers": ExportLayers,
        "prune": PruneTasks,
    }
