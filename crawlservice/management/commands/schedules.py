"""schedules: what is submitted again and again, and when next."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, Subquery
from rich.table import Table

from crawlservice.models import Run, Schedule
from crawlservice.schedules import upcoming
from crawlservice.terminal import Command as ServiceCommand
from crawlservice.terminal import plain
from crawlservice.timewords import in_words
from crawlservice.timing import BadTiming


class Command(ServiceCommand):
    help = "Lists schedules, with their next times and what became of the last ones."

    def handle(self, *args: Any, **options: Any) -> None:
        last = Run.objects.filter(schedule=OuterRef("pk")).order_by("-due_at")
        found = Schedule.objects.annotate(
            last_outcome=Subquery(last.values("outcome")[:1]),
            last_task=Subquery(last.exclude(task=None).values("task")[:1]),
        )
        table = Table("id", "name", "spider", box=None, pad_edge=False, header_style="bold")
        for column in ("when", "next", "last", "last task"):
            table.add_column(column)
        for schedule in found:
            cells = (str(schedule.pk), schedule.name, schedule.spider, *_times(schedule))
            task = str(schedule.last_task or "-")
            table.add_row(*map(plain, cells), schedule.last_outcome or "-", task)
        if table.row_count:
            self.console.print(table)
            for schedule in found:
                if schedule.problem:
                    problem = f"{schedule.name} cannot start: {schedule.problem}"
                    self.stdout.write(f"\n{plain(problem)}")
        else:
            self.stdout.write("no schedules; add one in the admin, under Schedules")


def _times(schedule: Schedule) -> tuple[str, str]:
    try:
        times = upcoming(schedule, 1)
    except BadTiming as error:
        return str(error), "-"
    words = f"{in_words(schedule.cron, schedule.every)} ({schedule.timezone})"
    if not schedule.enabled:
        return words, "disabled"
    return words, f"{times[0]:%Y-%m-%d %H:%M:%S %Z}" if times else "-"
