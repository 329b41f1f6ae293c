"""Versions: which code made the rows of a task."""

from __future__ import annotations

from collections import Counter

from crawlservice.models import Page, Task
from crawlservice.tasks.results.task_rows import of_task

MAX_ROWS = 10_000  # ledger rows counted: a count over millions takes seconds


def pages_by_version(task: Task) -> str:
    """``2f00c0ffee00 (300), 1f00c0ffee00 (1,200)``: the pages of each version, the latest version
    first, over the latest MAX_ROWS pages; "" if no page has a version."""
    rows = of_task(Page.objects.all(), task.pk, newest=True)
    counts = Counter(rows.values_list("version", flat=True)[:MAX_ROWS])
    if not any(counts):
        return ""
    text = ", ".join(f"{version or 'unknown'} ({n:,})" for version, n in counts.items())
    return f"{text} of the latest {MAX_ROWS:,} pages" if counts.total() == MAX_ROWS else text
