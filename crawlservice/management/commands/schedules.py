"""schedules: the schedules, with their next times."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, Subquery
from rich.table import Table
from rich.text import Text

from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import plain, status
from crawlservice.models import Run, Schedule, Task
from crawlservice.scheduling.schedules import upcoming
from crawlservice.scheduling.timing import BadTiming, in_words
from crawlservice.tasks import spider_switch

LAST = {"task": "task", "state": "task__state", "ended": "task__outcome"}


class Command(ServiceCommand):
    help = "Lists schedules, with their next times and the outcome of the last run."

    def handle(self, *args: Any, **options: Any) -> None:
        last = Run.objects.filter(schedule=OuterRef("pk")).order_by("-due_at")
        off = spider_switch.disabled()
        found = Schedule.objects.annotate(
            last_outcome=Subquery(last.values("outcome")[:1]),
            **{
                f"last_{name}": Subquery(last.exclude(task=None).values(column)[:1])
                for name, column in LAST.items()
            },
        )
        table = Table("id", "name", "spider", box=None, pad_edge=False, header_style="bold")
        for column in ("when", "next", "last", "last task"):
            table.add_column(column)
        for schedule in found:
            cells = (str(schedule.pk), schedule.name, schedule.spider, *_times(schedule))
            table.add_row(*map(plain, cells), schedule.last_outcome or "-", _last_task(schedule))
        if table.row_count:
            self.console.print(table)
            for schedule in found:
                if schedule.enabled and schedule.spider in off:
                    told = f"{schedule.name} is skipped: its spider is disabled: "
                    self.stdout.write(f"\n{plain(told + off[schedule.spider].reason)}")
                if schedule.problem:
                    problem = f"{schedule.name} cannot start: {schedule.problem}"
                    self.stdout.write(f"\n{plain(problem)}")
        else:
            self.stdout.write("no schedules; add one in the admin, under Schedules")


def _last_task(schedule: Any) -> Text:
    """Its number, and its state or outcome."""
    if schedule.last_task is None:
        return Text("-")
    task = Task(state=schedule.last_state, outcome=schedule.last_ended)
    return Text.assemble(f"{schedule.last_task} ", status(task))


def _times(schedule: Schedule) -> tuple[str, str]:
    try:
        times = upcoming(schedule, 1)
    except BadTiming as error:
        return str(error), "-"
    words = f"{in_words(schedule.cron, schedule.every)} ({schedule.timezone})"
    if not schedule.enabled:
        return words, "disabled"
    return words, f"{times[0]:%Y-%m-%d %H:%M:%S %Z}" if times else "-"
