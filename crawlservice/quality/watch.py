"""Watch: the leading steward reads the commits of running tasks, judges them, and acts on the
findings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

from django.db.models import Q, QuerySet

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import CrawlframeError, FrontierError
from crawlframe.frontier import Counts
from crawlservice.connections import clock
from crawlservice.connections.contained import contained
from crawlservice.models import Profile, Task
from crawlservice.quality.evaluation import (
    after_end,
    has_quality,
    is_changing,
    seconds_of,
    while_it_runs,
)
from crawlservice.quality.norms import History, Totals, history_of
from crawlservice.quality.reader import Bounds
from crawlservice.tasks import submit

log = logging.getLogger(__name__)

SLICE = 0.2  # seconds of a round
MAX_ROWS = 500  # items, and pages, of one task in a round
HISTORIES = 200  # tasks whose histories are kept in memory
RETRY = 60.0  # seconds after which a task that could not be judged is tried again

Refuse = Callable[[Task, str, str], None]


class QualityWatch:
    """``bounds`` returns how far items and pages can be read. ``refuse`` takes the nodes that run
    a version, found bad by a task, back to the version of the last good run: it gets task, bad and
    good version."""

    def __init__(self, bounds: Callable[[], Bounds], refuse: Refuse) -> None:
        self._bounds = bounds
        self._refuse = refuse
        self._last = 0  # the task that was read last
        self._histories: BoundedDict[int, History] = BoundedDict(HISTORIES)
        self._later: dict[int, float] = {}  # tasks that could not be judged, and when to try again

    def tick(self, found: Mapping[int, Counts | None]) -> None:
        """One round: about SLICE seconds. ``found``: the frontier's counts of the active tasks.
        Raises django.db.Error."""
        until = time.monotonic() + SLICE
        self._act()
        self._judge_ended(until)
        active = sorted(pk for pk, counts in found.items() if counts is not None)
        if not active:
            return
        bounds = self._bounds()
        order = [pk for pk in active if pk > self._last] + [pk for pk in active if pk <= self._last]
        rows = Task.objects.filter(state__in=Task.ACTIVE).defer("seeds", "arguments")
        for pk in order:
            if time.monotonic() >= until:
                break
            self._last = pk
            if counts := found[pk]:
                self._attempt(pk, partial(self._read, rows.filter(pk=pk), counts, bounds, until))

    def _read(self, row: QuerySet[Task], counts: Counts, bounds: Bounds, until: float) -> None:
        task = row.first()
        if task is None or not has_quality(task, counts.items):
            return
        pages = max(0, counts.nf + counts.errors - 1)
        totals = Totals(counts.items, pages, seconds_of(task, clock.now()))
        history, admitted = self._history(task), max(0, counts.na - 1)
        while_it_runs(task, history, totals, bounds, until, MAX_ROWS, admitted=admitted)

    def _history(self, task: Task) -> History:
        if task.pk not in self._histories:
            self._histories[task.pk] = history_of(task)
        return self._histories[task.pk]

    def _judge_ended(self, until: float) -> None:
        """Tasks whose end was not judged when they ended; those first that ended first."""
        now = time.monotonic()
        self._later = {pk: at for pk, at in self._later.items() if at > now}
        ended = ~Q(task__state__in=Task.ACTIVE) & ~Q(task__in=[*self._later])
        rows = (
            Profile.objects.filter(ended, judged=False).order_by("task_id").select_related("task")
        )
        for profile in rows.defer("content", "task__seeds", "task__arguments")[:10]:
            if time.monotonic() >= until:
                return
            task = profile.task
            if is_changing(task):
                self._later[task.pk] = now + RETRY
                continue
            self._attempt(task.pk, partial(after_end, task, until, 4 * MAX_ROWS))
            self._histories.pop(task.pk, None)

    def _attempt(self, pk: int, step: Callable[[], object]) -> None:
        """A task that cannot be read must not keep others from it."""
        if self._later.get(pk, 0.0) > time.monotonic():
            return
        self._later.pop(pk, None)
        with contained(f"the quality of task {pk}") as failed:
            step()
        if failed:
            self._later[pk] = time.monotonic() + RETRY

    def _act(self) -> None:
        """Acts on findings, at least once: the mark is removed afterwards."""
        rows = Profile.objects.exclude(action_due="").select_related("task").defer("content")
        for profile in rows.defer("task__seeds").order_by("task_id"):
            with contained(f"task {profile.task_id}"):
                try:
                    self._do(profile.task, profile.action_due)
                except FrontierError as error:  # it is done in a later round
                    log.info("task %d: %s", profile.task_id, error)
                    continue
                except CrawlframeError as error:  # it has ended meanwhile
                    log.info("task %d: %s", profile.task_id, error)
                Profile.objects.filter(pk=profile.pk, action_due=profile.action_due).update(
                    action_due=""
                )

    def _do(self, task: Task, action: str) -> None:
        log.warning("task %d: its quality failed; action: %s", task.pk, action)
        active = task.state in Task.ACTIVE
        if action == "cancel" and active:
            submit.cancel(task.pk)
        elif action in ("pause", "refuse") and task.state == Task.State.RUNNING:
            submit.pause(task.pk)
        if action == "refuse":
            finding = task.findings.exclude(version="").order_by("-pk").first()
            if finding is not None and finding.good_version not in ("", finding.version):
                self._refuse(task, finding.version, finding.good_version)
