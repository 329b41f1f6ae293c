"""The alias rules of a task: the rules that held when it was submitted."""

from __future__ import annotations

import msgspec

from crawlframe.aliases.rule import AliasRule as Rule
from crawlservice.models import AliasRule, Task, TaskAliases


def give(task: Task, source: Task | None = None) -> None:
    """Records the rules that a new task uses: the verified rules, or the rules of ``source``, whose
    requests it is to know again."""
    if source is not None:
        rules = TaskAliases.objects.filter(task=source).values_list("rules", flat=True).first()
    else:
        rows = AliasRule.objects.filter(state=AliasRule.State.VERIFIED).order_by("pk")
        rules = [*rows.values_list("rule", flat=True)]
    if rules:
        TaskAliases.objects.create(task=task, rules=rules)


def of_task(task: int) -> tuple[Rule, ...]:
    """The rules that a task uses, in the order of their application."""
    rules = TaskAliases.objects.filter(task=task).values_list("rules", flat=True).first()
    return tuple(msgspec.convert(rules or [], list[Rule]))
