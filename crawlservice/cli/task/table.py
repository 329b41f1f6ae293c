"""task list: the latest tasks, and the form that a task has in JSON."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from crawlframe.base.program import command
from crawlservice.cli.command import ServiceCommand, add_json
from crawlservice.cli.listing import Listing, attributes, status
from crawlservice.display import duration
from crawlservice.models import Task
from crawlservice.tasks.label_rows import labelled
from crawlservice.tasks.progress.progress import Progress, read


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


def as_json(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """The form of the API."""
    from crawlservice.api.tasks.tasks import serialized  # with ninja, which takes long to import

    return [task.model_dump(mode="json") for task in serialized(tasks)]


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
