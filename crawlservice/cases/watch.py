"""CaseWatch: makes cases of events of tasks, each once, and ends cases. Only one leader does it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol

from django.db.models.functions import Now

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.markup import parsers
from crawlservice.cases import state
from crawlservice.cases.blame import TrialResult, blame, needs_trial
from crawlservice.cases.diagnosis import Diagnosis, diagnose
from crawlservice.cases.events import TELLING
from crawlservice.cases.evidence import BadRun, bad_run
from crawlservice.cases.repair import make_proposals
from crawlservice.connections.contained import contained
from crawlservice.models import Event, Task

log = logging.getLogger(__name__)

SLICE = 1.0  # seconds of a round, and those that the last run takes
MAX_EVENTS = 200  # of a round
MAX_WAITING = 100  # causes that wait for a trial
FIRST_SPAN = timedelta(days=1)  # events that the first look goes back
TRIALS = 1_000  # results of trials that are remembered
OLD_EVERY = 600  # rounds between two looks at old cases

Pages = Mapping[str, list[int]]
Found = tuple[BadRun, Diagnosis]
Tried = tuple[str, str, str]  # good and bad version, spider


class Trial(Protocol):
    """A trial of two versions that runs, as TrialProcess."""

    versions: tuple[str, str]

    def results(self) -> dict[str, TrialResult] | None: ...

    def stop(self) -> None: ...


class CaseWatch:
    """``settled`` returns the number of the last event before which none is missing. ``try_pages``
    starts a trial of a good and a bad version on pages of spiders. ``still_here`` is called
    repeatedly."""

    def __init__(
        self,
        settled: Callable[[], int],
        try_pages: Callable[[str, str, Pages], Trial],
        still_here: Callable[[], None] = lambda: None,
    ) -> None:
        self._settled, self._try, self._still_here = settled, try_pages, still_here
        self._trial: Trial | None = None
        self._waiting: list[Found] = []  # for trials
        self._place = 0  # the last event that was looked at
        self._more = False  # whether there are events after it
        self._results: BoundedDict[Tried, TrialResult] = BoundedDict(TRIALS)
        self._rounds = 0

    def tick(self) -> None:
        """One round. Raises django.db.Error."""
        if self._trial is not None and (found := self._trial.results()) is not None:
            for spider, result in found.items():
                self._results[(*self._trial.versions, spider)] = result
            self.stop()
        if self._trial is None:
            self._advance()
        make_proposals(SLICE, self._still_here)
        if self._rounds % OLD_EVERY == 0:
            state.end_old()
        self._rounds += 1

    def stop(self) -> None:
        if self._trial is not None:
            self._trial.stop()
            self._trial = None

    def _advance(self) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._read()
        self._waiting = [one for one in self._waiting if not self._record(*one)]
        if not self._waiting:
            if self._place > (state.marked() or 0):
                state.mark(self._place)
            if not self._more:  # no run that is still to be looked at may be a bad one
                state.end_fixed()
        elif not self._more or len(self._waiting) >= MAX_WAITING:
            self._begin_trial()

    def _read(self) -> None:
        """The next events, and the bad runs that they are about, for about SLICE seconds."""
        for key, result in [*self._results.items()]:  # without pages then, perhaps with some now
            if not (result.pages or result.same_code or result.problem):
                del self._results[key]
        last, settled = state.marked(), self._settled()
        rows = Event.objects.filter(pk__lte=settled, kind__in=TELLING).exclude(task=None)
        rows = rows.filter(created_at__gt=Now() - FIRST_SPAN) if last is None else rows
        rows = rows.filter(pk__gt=max(last or 0, self._place)).order_by("pk")
        # By the last event of each: the number of an event is passed when its task was looked at.
        found = {task: pk for pk, task in rows.values_list("pk", "task")[:MAX_EVENTS]}
        tasks = Task.objects.defer("seeds").in_bulk([*found])
        until = time.monotonic() + SLICE
        for task, pk in sorted(found.items(), key=lambda one: one[1]):
            with contained(f"the case of task {task}"):
                if task in tasks and (run := bad_run(tasks[task])):
                    self._waiting += [(run, one) for one in diagnose(run.evidence)]
            self._place = pk
            if parsers.stuck():  # of a page that is made for it; a thread cannot be stopped
                log.error("a page of task %d takes its parser too long; the steward exits", task)
                state.mark(pk)
                os._exit(1)
            self._still_here()
            if time.monotonic() > until:
                break
        self._more = rows.filter(pk__gt=self._place).exists()
        if not self._more:
            self._place = max(self._place, settled)

    def _record(self, run: BadRun, found: Diagnosis) -> bool:
        """Whether a case was made of it; it may wait for a trial."""
        good, bad = run.evidence.versions
        known = self._results.get((good, bad, run.task.spider))
        if needs_trial(found, good, bad) and known is None:
            return False
        with contained(f"the case of task {run.task.pk}"):
            state.record(run, found, blame(found, good, bad, known))
        return True

    def _begin_trial(self) -> None:
        """Of all spiders that wait with the versions of the first one."""
        versions = self._waiting[0][0].evidence.versions
        pages: dict[str, list[int]] = {}
        for run, _ in self._waiting:
            if run.evidence.versions == versions:
                pages.setdefault(run.task.spider, []).extend(run.old_pages)
        if not any(pages.values()):
            self._results.update({(*versions, spider): TrialResult() for spider in pages})
            return
        try:
            self._trial = self._try(*versions, pages)
        except OSError as error:
            for spider in pages:
                self._results[(*versions, spider)] = TrialResult(problem=str(error))
