"""Rows of all tasks that have a label, in the order of their tasks and their numbers.

Sorted by number alone, the rows of many tasks would have to be gathered first, or a table be walked
whose rows are nearly all of other tasks. By task and number, an index has them in this order."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from django.db.models import Model, QuerySet

from crawlservice.models import Label, Task
from crawlservice.tasks.labels import parse
from crawlservice.tasks.results.task_rows import of_task

GROUP = 500  # tasks of one query
MAX_ID = 2**63 - 1
TASKS = 4_000  # tasks that are looked through for one page of rows

M = TypeVar("M", bound=Model)


class Place(NamedTuple):
    """A row of a task, by number."""

    task: int
    number: int

    @classmethod
    def read(cls, text: str | None) -> Place | None:
        """``7-1234``; None for anything else."""
        task, _, number = (text or "").partition("-")
        found = task.isdecimal() and number.isdecimal() and len(task) < 19 and len(number) < 19
        return cls(int(task), int(number)) if found else None

    def __str__(self) -> str:
        return f"{self.task}-{self.number}"


class LabelledRows(NamedTuple):
    """``reached``: where the search ended after TASKS tasks, if it did."""

    found: list[Any]
    reached: Place | None


def tasks_with(label: str) -> QuerySet[Label, int]:
    """The numbers of the tasks that have the label ``NAME=VALUE``. Raises BadLabel."""
    name, value = parse(label)
    return Label.objects.filter(name=name, value=value).values_list("task", flat=True)


def labelled(rows: QuerySet[Task], label: str) -> QuerySet[Task]:
    """The tasks that have the label. Raises BadLabel."""
    name, value = parse(label)
    return rows.filter(labels__name=name, labels__value=value)


def rows_of(
    rows: QuerySet[M, Any], label: str, beyond: Place | None, count: int, *, newest: bool = False
) -> LabelledRows:
    """The next ``count`` rows of tasks with the label, beyond a place. Raises BadLabel."""
    tasks = tasks_with(label).order_by("-task" if newest else "task")
    found: list[Any] = []
    if beyond is not None:
        if tasks.filter(task=beyond.task).exists():
            side = {"before": beyond.number} if newest else {"after": beyond.number}
            found += of_task(rows, beyond.task, newest=newest, **side)[:count]
        tasks = tasks.filter(**{f"task__{'lt' if newest else 'gt'}": beyond.task})
    rows = rows.order_by("-task_id", "-pk") if newest else rows.order_by("task_id", "pk")
    for start in range(0, TASKS, GROUP):
        if len(found) >= count or not (group := [*tasks[start : start + GROUP]]):
            return LabelledRows(found, None)
        found += rows.filter(task__in=group)[: count - len(found)]
    if len(found) >= count or not tasks[TASKS : TASKS + 1]:
        return LabelledRows(found, None)
    return LabelledRows(found, Place(group[-1], 0 if newest else MAX_ID))
