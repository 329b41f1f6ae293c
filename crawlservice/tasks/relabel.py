"""Changes the labels of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from crawlservice.accounts import journal
from crawlservice.connections.lookup import find
from crawlservice.models import Label, Task
from crawlservice.tasks.labels import check, of_task, write


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
