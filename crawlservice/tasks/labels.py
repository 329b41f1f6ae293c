"""Labels of tasks: checked, written and read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from crawlframe.errors import ArgumentError
from crawlservice.accounts import journal
from crawlservice.connections.lookup import find
from crawlservice.models import LABEL_NAME, LABEL_VALUE, LABELS, Label, Task

NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LABEL_NAME}}}")


class BadLabel(ArgumentError):
    """A label that a task cannot have."""


def check(labels: Mapping[str, Any]) -> dict[str, str]:
    """Returns the labels, sorted by name. Raises BadLabel."""
    if len(labels) > LABELS:
        raise BadLabel(f"{len(labels)} labels; a task can have {LABELS} at most")
    for name, value in labels.items():
        if not NAME.fullmatch(name):
            raise BadLabel(
                f"label {_short(name)}: a name has 1 to {LABEL_NAME} letters (a-z, A-Z), digits, "
                "dots, underscores and hyphens"
            )
        if not isinstance(value, str):
            raise BadLabel(f"label {name}: the value must be text, such as {name}=news")
        if not value or value != value.strip():
            raise BadLabel(
                f"label {name}: the value must be text without blanks around it, such as "
                f"{name}=news"
            )
        if len(value) > LABEL_VALUE:
            raise BadLabel(
                f"label {name}: the value has {len(value)} characters; {LABEL_VALUE} at most"
            )
        if not value.isprintable():
            raise BadLabel(f"label {name}: the value has characters that cannot be printed")
    return dict(sorted(labels.items()))


def parse(pair: str) -> tuple[str, str]:
    """``domain=news`` -> ``("domain", "news")``, checked. Raises BadLabel."""
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals:
        raise BadLabel(f"label {_short(pair)} is not of the form NAME=VALUE, such as domain=news")
    check({name: value})
    return name, value


def parse_all(pairs: Iterable[str]) -> dict[str, str]:
    """Raises BadLabel, also if a name occurs twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, value = parse(pair)
        if name in found:
            raise BadLabel(f"label {name} is given twice; a task can have it once")
        found[name] = value
    return check(found)


def write(task: int, labels: Mapping[str, str]) -> None:
    """Adds checked labels to a task that has none."""
    Label.objects.bulk_create(
        Label(task_id=task, name=name, value=value) for name, value in labels.items()
    )


def of_tasks(tasks: Iterable[int]) -> dict[int, dict[str, str]]:
    """The labels of each task by name, with one query. Tasks without labels are left out."""
    found: defaultdict[int, dict[str, str]] = defaultdict(dict)
    rows = Label.objects.filter(task__in={*tasks}).order_by("task", "name")
    for task, name, value in rows.values_list("task", "name", "value"):
        found[task][name] = value
    return dict(found)


def of_task(task: int) -> dict[str, str]:
    return of_tasks([task]).get(task, {})


def _short(text: str) -> str:
    return repr(text if len(text) <= LABEL_NAME else f"{text[:LABEL_NAME]}…")


def change_labels(task_id: int, labels: Mapping[str, Any], who: Mapping[str, Any]) -> None:
    """Replaces the labels of a task, whatever its state. ``who``: the caller, for the journal.
    Raises BadLabel and NotFound."""
    new = check(labels)
    with transaction.atomic():
        # Locked, so that two changes do not mix.
        find(Task.objects.select_for_update().only("pk"), "task", task_id)
        before = of_task(task_id)
        if new == before:
            return
        Label.objects.filter(task=task_id).delete()
        write(task_id, new)
        journal.record("change labels", task=task_id, **who, labels=new, before=before)
