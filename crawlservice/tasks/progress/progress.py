"""Progress: the numbers of tasks, from Redis while they run and from the database afterwards."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Max
from django.utils import timezone

from crawlframe.base.limits import PAGE_LIMIT
from crawlframe.errors import CrawlframeError
from crawlframe.request.request import root_admission
from crawlservice.models import Page, StartPart, Task

if TYPE_CHECKING:
    from crawlframe.frontier import Counts
    from crawlframe.frontier.waits import TaskWait


ENDING = (
    "state", "outcome", "reason", "closing", "finished_at", "unwritten",
    "na", "nf", "ne", "items", "cancelled", "excluded", "refused",
)  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """One task at one instant. ``live``: the numbers are from Redis. If a task is active but not
    live, Redis does not know it yet, or is unreachable. ``refused``: links that limits refused at
    admission, by limit."""

    task: Task
    live: bool
    na: int
    nf: int
    ne: int
    items: int
    duplicates: int = 0
    ready: int = 0
    delayed: int = 0
    in_progress: int = 0
    parked: int = 0
    cancelled: int = 0
    excluded: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    beyond: int = 0  # of a task that is crawled in layers: requests of later layers
    wait: TaskWait | None = None  # the gate lets nothing of it go now

    @property
    def limited(self) -> int:
        return self.refused.get(PAGE_LIMIT, 0)

    @property
    def errors(self) -> int:
        return self.ne - self.cancelled - self.excluded

    @property
    def worked(self) -> int:
        """Requests that were run: done, or an error. Rates are computed from it."""
        return self.nf + self.errors

    @property
    def written(self) -> int:
        """Ledger rows of a cancelled task that have been written."""
        return self.task.na - (self.task.unwritten or 0)

    @property
    def nr(self) -> int:
        return self.na - self.nf - self.ne

    @property
    def ended_requests(self) -> int:
        """Requests that are done, ended in error, or were cancelled or excluded. Users see nf as
        "done"."""
        return self.nf + self.ne

    @property
    def ended(self) -> bool:
        return self.task.state not in Task.ACTIVE

    @property
    def settled(self) -> bool:
        """Whether it has ended and all its rows are written."""
        return self.ended and self.task.unwritten is None

    @property
    def age(self) -> float:
        """Seconds from submission to the end, or until now."""
        until = self.task.finished_at or timezone.now()
        return max(0.0, (until - self.task.created_at).total_seconds())


def read(tasks: Iterable[Task]) -> list[Progress]:
    """The progress of each task: one round trip to Redis for all together, and some more if a task
    has waiting requests and fetches none."""
    tasks = list(tasks)
    active = [task.pk for task in tasks if task.state in Task.ACTIVE]
    counts, waits = _counts(active)
    if gone := [task for task in tasks if task.pk in counts and counts[task.pk] is None]:
        _read_ends(gone)
    return [_combine(task, counts.get(task.pk), waits.get(task.pk)) for task in tasks]


def _counts(active: list[int]) -> tuple[dict[int, Counts | None], dict[int, TaskWait]]:
    if not active:
        return {}, {}
    # Imported here: commands that show no active task start without the client of Redis.
    from redis import RedisError

    from crawlservice.connections.frontier import frontier

    try:
        counts = frontier().counts_of(active)
        return counts, frontier().waits.of(counts)
    except (RedisError, CrawlframeError):
        return {}, {}


def _read_ends(tasks: list[Task]) -> None:
    """Reads rows again that are older than the answer of Redis: their tasks may have ended since,
    and Redis forgets a task that has ended."""
    rows = Task.objects.filter(pk__in=[task.pk for task in tasks]).values("pk", *ENDING)
    found = {row.pop("pk"): row for row in rows}
    for task in tasks:
        for name, value in found.get(task.pk, {}).items():
            setattr(task, name, value)


def _combine(task: Task, counts: Counts | None, wait: TaskWait | None) -> Progress:
    before = task.refused or {}
    if counts is None:
        return Progress(
            task, False, task.na, task.nf, task.ne, task.items,
            cancelled=task.cancelled, excluded=task.excluded, refused=before,
        )  # fmt: skip
    return Progress(
        task, True, counts.na, counts.nf, counts.ne, counts.items, counts.duplicates,
        counts.ready, counts.delayed, counts.in_progress, counts.parked, counts.cancelled,
        counts.excluded, Counter(before) + Counter(counts.refused), counts.beyond, wait,
    )  # fmt: skip


class RateMeter:
    """Requests per second over the last ``window`` seconds, from the numbers it is given."""

    def __init__(self, window: float = 10.0) -> None:
        self.window = window
        self._seen: deque[tuple[float, int]] = deque()

    def show(self, done: int, now: float | None = None) -> None:
        """``done``: requests ended so far; ``now``: seconds of a steady clock."""
        now = time.monotonic() if now is None else now
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self.window:
            self._seen.popleft()

    @property
    def rate(self) -> float:
        if len(self._seen) < 2:
            return 0.0
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return max(0, last - first) / (end - start) if end > start else 0.0


def yielded(tasks: Collection[int]) -> dict[int, int]:
    """The requests that starts have yielded so far, dropped ones included, of those tasks whose
    start still runs and has recorded some. Raises django.db.Error."""
    parts = StartPart.objects.filter(task__in=tasks).order_by().values_list("task")
    found = dict(parts.annotate(Max("position")))
    rids = {UUID(bytes=root_admission(task).rid): task for task in found}
    for rid in Page.objects.filter(rid__in=rids).values_list("rid", flat=True):
        del found[rids[rid]]
    return found
