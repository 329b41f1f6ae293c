"""schedule: tasks that start by the clock."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, Subquery
from rich.text import Text

from crawlservice.cli.command import JsonCommand
from crawlservice.cli.listing import Listing, attributes, plain, status
from crawlservice.cli.noun import Noun
from crawlservice.models import Run, Schedule, Task
from crawlservice.scheduling.schedules import upcoming
from crawlservice.scheduling.timing import BadTiming, in_words
from crawlservice.tasks import spider_switch

LAST = {"task": "task", "state": "task__state", "ended": "task__outcome"}


class ListSchedules(JsonCommand):
    help = "Lists schedules, with their next times and the outcome of the last run."

    def handle(self, *args: Any, **options: Any) -> None:
        last = Run.objects.filter(schedule=OuterRef("pk")).order_by("-due_at")
        found = Schedule.objects.annotate(
            last_outcome=Subquery(last.values("outcome")[:1]),
            **{
                f"last_{name}": Subquery(last.exclude(task=None).values(column)[:1])
                for name, column in LAST.items()
            },
        )
        self.show_list(SCHEDULES, [*found], options["json"])
        off = {} if options["json"] else spider_switch.disabled()
        for schedule in found if not options["json"] else ():
            if schedule.enabled and schedule.spider in off:
                told = f"\n{schedule.name} is skipped: its spider is disabled: "
                self.stdout.write(plain(told + off[schedule.spider].reason))
            if schedule.problem:
                self.stdout.write(plain(f"\n{schedule.name} cannot start: {schedule.problem}"))


class Command(Noun):
    verbs = {"list": ListSchedules}


def _last_task(schedule: Any) -> Text | None:
    """The number of a task, and its state or outcome."""
    if schedule.last_task is None:
        return None
    task = Task(state=schedule.last_state, outcome=schedule.last_ended)
    return Text.assemble(f"{schedule.last_task} ", status(task))


def _when(schedule: Schedule) -> str:
    return f"{in_words(schedule.cron, schedule.every)} ({schedule.timezone})"


def _next(schedule: Schedule) -> str | None:
    if not schedule.enabled:
        return "disabled"
    try:
        times = upcoming(schedule, 1)
    except BadTiming as error:
        return str(error)
    return f"{times[0]:%Y-%m-%d %H:%M:%S %Z}" if times else None


SCHEDULES = Listing[Any](
    "schedules",
    {
        **attributes("id=pk", "name", "spider"),
        "next": _next,
        **attributes("last=last_outcome"),
        "last task": _last_task,
        "when": _when,
    },
    "no schedules; add one in the admin, under Spiders, Schedules",
    folded=("when",),
)
