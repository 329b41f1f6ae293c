"""task: crawls that were submitted."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial
from typing import Any

from rich.text import Text

from crawlframe.base.program import command
from crawlservice.accounts.journal import change
from crawlservice.cli.command import ServiceCommand, add_json
from crawlservice.cli.listing import Listing, attributes
from crawlservice.cli.noun import Noun
from crawlservice.cli.tasks.files import ExportItems, ExportLayers
from crawlservice.cli.tasks.prune import PruneTasks
from crawlservice.cli.tasks.reparse import Reparse
from crawlservice.cli.tasks.retry import RetryErrors
from crawlservice.cli.tasks.show import SetTask, ShowTask, as_json
from crawlservice.cli.terminal import status
from crawlservice.display import duration
from crawlservice.models import Task
from crawlservice.tasks import submit
from crawlservice.tasks.label_rows import labelled
from crawlservice.tasks.progress.progress import Progress, read


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
