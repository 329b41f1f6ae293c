"""Tasks of the ledger: their specification for workers, their state, and their end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from django.db import OperationalError, transaction

from crawlframe.base import faults
from crawlframe.frontier import Counts
from crawlframe.pages.reparse import Reparse
from crawlframe.run.ledger import TaskLedger, TaskSpec
from crawlframe.spider.task_info import Summary
from crawlservice.ledger import state
from crawlservice.ledger.ending import end, summary_of
from crawlservice.ledger.named_errors import with_named_errors
from crawlservice.models import Task
from crawlservice.recipes.current import current, numbers
from crawlservice.tasks import aliases
from crawlservice.tasks.arguments.secrets import revealed


@with_named_errors
class TaskRows(TaskLedger):
    """On this thread's connection."""

    def spec(self, task: int) -> TaskSpec | None:
        rows = Task.objects.only("spider", "arguments", "priority", "overrides", "reparse", "watch")
        row = rows.filter(pk=task).first()
        if row is None:
            return None
        again = None if row.reparse is None else msgspec.convert(row.reparse, Reparse)
        return TaskSpec(
            *(task, row.spider, revealed(row.arguments), row.priority, row.overrides),
            recipe=current(row.spider),
            reparse=again,
            watch=row.watch_id or 0,
            aliases=aliases.of_task(task),
        )

    def recipe_numbers(self, names: Collection[str]) -> dict[str, int]:
        return numbers(names)

    def summary(self, task: int, counts: Counts) -> Summary | None:
        return summary_of(task, counts)

    def keep_state(self, states: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        faults.at("state.before", OperationalError)
        state.keep(states)

    def finish(self, tasks: Mapping[int, Counts], strays: int = 0) -> set[int]:
        """``strays``: rows of each task that are known to belong to no admitted request."""
        faults.at("finish.before", OperationalError)
        with transaction.atomic():
            ended = end(tasks, strays)
        faults.at("finish.after", OperationalError)
        return ended
