"""Retention: tasks that are kept until active exports have exported all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from crawlservice.exports.source import wanted_by
from crawlservice.models import Export


def held(tasks: Collection[int]) -> dict[int, list[str]]:
    """Those of the tasks that have rows which an active export wants and has not exported, with the
    names of the exports. Raises django.db.Error."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for export in Export.active_ones():
        rows = wanted_by(export).filter(task_id__in=tasks, pk__gt=export.position)
        for task in rows.order_by().values_list("task_id", flat=True).distinct():
            found[task].append(export.name)
    return dict(found)
