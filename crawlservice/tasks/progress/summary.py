"""TaskSummary: the outcomes of a task's requests. Only its latest rows are counted: counting
millions takes seconds."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.connections.frontier import frontier
from crawlservice.models import Page, Task
from crawlservice.tasks.results.error_groups import ErrorText
from crawlservice.tasks.results.task_rows import of_task

MAX_ROWS = 10_000  # ledger rows
CAUSES = 20  # most causes shown


class ErrorCause(NamedTuple):
    """The errors with one reason and of one group, and the latest of them."""

    reason: str
    group: int | None
    errors: int
    example: Page

    @property
    def text(self) -> ErrorText:
        return ErrorText.of(self.example.detail, self.example.url)


def causes_of(task: Task) -> list[ErrorCause]:
    """The causes of its latest errors, the most frequent first, with two queries. Cancelled and
    excluded requests are none."""
    rows = of_task(Page.objects.exclude(reason__in=NO_ERRORS), task.pk, newest=True)
    errors = rows.filter(state=Page.State.ERROR).values_list("reason", "error_group", "pk")
    seen = [*errors[:MAX_ROWS]]
    counted = Counter((reason, group) for reason, group, _ in seen).most_common(CAUSES)
    latest = {(reason, group): pk for reason, group, pk in reversed(seen)}
    shown = Page.objects.only("url", "detail", "reason", "status", "rid").in_bulk(
        [latest[cause] for cause, _ in counted]
    )
    known = [(*cause, n, shown.get(latest[cause])) for cause, n in counted]
    # Of a cause without an example, the pages were retried just now.
    return [ErrorCause(*row[:3], row[3]) for row in known if row[3]]


def statuses_of(task: Task) -> list[tuple[int | None, int]]:
    """The number of its latest requests by HTTP status (None: no answer), the most frequent first;
    without cancelled or excluded ones."""
    rows = of_task(Page.objects.exclude(reason__in=NO_ERRORS), task.pk, newest=True)
    return Counter(rows.values_list("status", flat=True)[:MAX_ROWS]).most_common()


def parked_of(task: Task) -> list[tuple[str, int]]:
    """The parked requests by the reason why they wait; also [] if there are more than MAX_ROWS, or
    Redis is unreachable."""
    if task.state not in Task.ACTIVE:
        return []
    try:
        counts = frontier().counts(task.pk)
        if counts is None or not 0 < counts.parked <= MAX_ROWS:
            return []
        return Counter(frontier().parked(task.pk).values()).most_common(CAUSES)
    except (RedisError, CrawlframeError):
        return []


def pages_by_version(task: Task) -> str:
    """``2f00c0ffee00 (300), 1f00c0ffee00 (1,200)``: the pages of each version, the latest version
    first, over the latest MAX_ROWS pages; "" if no page has a version."""
    rows = of_task(Page.objects.all(), task.pk, newest=True)
    counts = Counter(rows.values_list("version", flat=True)[:MAX_ROWS])
    if not any(counts):
        return ""
    text = ", ".join(f"{version or 'unknown'} ({n:,})" for version, n in counts.items())
    return f"{text} of the latest {MAX_ROWS:,} pages" if counts.total() == MAX_ROWS else text
