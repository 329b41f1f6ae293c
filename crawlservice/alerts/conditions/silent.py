"""A running task has requests to fetch, and none has ended for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlservice.alerts.condition import (
    Alarm,
    Condition,
    Facts,
    RunningTask,
    ServiceView,
    Threshold,
    Unknown,
)
from crawlservice.alerts.task_alarms import name_of, running_finding, uncounted
from crawlservice.alerts.wording import page_of
from crawlservice.models import OPEN, Alert, Severity, Task


class Silence:
    """Finds tasks that should progress and do not. It remembers their counters, so a new leader
    counts from its own start, except for alerts found before: ``known``, tasks and since when."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, datetime]] = {}

    def look(
        self, tasks: Iterable[RunningTask], known: Mapping[int, datetime], now: datetime
    ) -> dict[int, datetime]:
        """The tasks that have something to do, and since when nothing was done. Must be called in
        each round."""
        before, self._seen = self._seen, {}
        found = {}
        for task in tasks:
            counts = task.counts
            if counts is None or counts.state != Task.State.RUNNING:
                continue
            if counts.ready <= 0 and counts.in_progress <= 0:
                continue  # nothing is due
            done = counts.na + counts.nf + counts.ne
            start = (done, known.get(task.number, now))
            last, since = before.get(task.number, start)
            self._seen[task.number] = done, since if last == done else now
            found[task.number] = self._seen[task.number][1]
        return found


def find(view: ServiceView) -> Iterator[Alarm | Unknown]:
    """A task that the gate keeps back is not silent. Raises redis.RedisError."""
    silence = view.memory.setdefault("silent", Silence())
    began = Alert.objects.filter(OPEN, kind="silent").values_list("subject", "since")
    known = {int(task): at for task, at in began} if view.tasks else {}
    since = silence.look(view.tasks, known, view.now)
    found = [
        running_finding("silent", task, since[task.number], round(minutes, 1))
        for task in view.tasks
        if task.number in since
        and (minutes := view.minutes_since(since[task.number])) >= view.least["silent"]
    ]
    silent = {one.task for one in found}
    counts = {task.number: task.counts for task in view.tasks if task.number in silent}
    meant = view.frontier.waits.of(counts)
    yield from (one for one in found if one.task not in meant)
    yield from uncounted(view)


def sentence(facts: Facts) -> str:
    text = gettext("{task} has requests to fetch, and none has ended for a while.")
    return text.format(task=name_of(facts))


CONDITION = Condition(
    "silent",
    _("silent task"),
    Severity.SEVERE,
    find,
    sentence,
    lambda facts: page_of("task", facts["task"]),
    Threshold(10, _("minutes"), 0.5, 10_080),
    urgency=60,
)
