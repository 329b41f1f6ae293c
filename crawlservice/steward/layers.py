"""Layers: tasks that are crawled one depth after the other advance when a layer is done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import transaction
from django.db.models.functions import Now

from crawlframe.base import faults
from crawlframe.frontier import Counts, Frontier
from crawlservice.models import Page, Task
from crawlservice.tasks.progress import budgets, layers

log = logging.getLogger(__name__)

GOING = (Task.State.RUNNING, Task.State.PAUSED)


class LayerSteps:
    """The task's row says at which layer it is; the frontier follows, and may be behind."""

    def __init__(
        self,
        frontier: Frontier,
        bring_back: Callable[[Task], int],
        distrust: Callable[[str], object],
    ) -> None:
        """``bring_back`` admits the requests of a task that the frontier lacks, and returns their
        number; ``distrust`` is called when the database has lost rows."""
        self._frontier = frontier
        self._bring_back = bring_back
        self._distrust = distrust

    def tick(self, task: Task, counts: Counts) -> None:
        """Brings the frontier to the layer of a task, or the task to its next layer if this one is
        done. Does nothing for tasks without layers. Raises redis.RedisError, FrontierError and
        django.db.Error."""
        if not task.settings.get("layers") or task.state not in GOING:
            return
        reached = self._frontier.layers.reached(task.pk)
        if None in reached.layers:
            return  # it is about to be restored
        if reached.is_after(task.layer):
            # Another steward continued, or the database lost a step.
            now = Task.objects.filter(pk=task.pk).values_list("layer", flat=True).first()
            if now is not None and self._frontier.layers.reached(task.pk).is_after(now):
                self._distrust(
                    f"the database has forgotten that a layer of task {task.pk} was done"
                )
        elif not reached.is_at(task.layer):
            self._frontier.layers.go_on(task.pk, task.layer)
        elif counts.nr == counts.beyond + (counts.nr > counts.beyond and task.ends):
            self._look(task)

    def _look(self, task: Task) -> None:
        """The layer seems to be done. Counted again, because the positions of the partitions were
        read after the counts; and compared with the ledger, because Redis may have lost requests
        that it does not count."""
        counts = self._frontier.counts(task.pk)
        if counts is None or not self._is_done(task, counts):
            return
        ended = counts.nf + counts.ne
        rows = Page.objects.filter(task=task.pk).count()
        # With several partitions a task may have lost requests whose parents another process
        # completed, as when it ends.
        several = self._frontier.store.partitions > 1
        if (several or rows != ended) and self._bring_back(task):
            return
        if rows != ended:
            if Page.objects.filter(task=task.pk).count() == rows:
                self._distrust(f"the database has lost pages of task {task.pk}")
            return
        if self._advance(task, counts):
            faults.at("layers.recorded")
            if task.settings.get("pause_layers"):
                self._frontier.pause(task.pk)
            self._frontier.layers.go_on(task.pk, task.layer + 1)

    def _is_done(self, task: Task, counts: Counts) -> bool:
        """Whether no request of the layer, or of one before, is pending. Without later ones, the
        task is about to end."""
        if not counts.beyond:
            return False
        last = bool(task.ends and counts.delayed and self._frontier.holds_last(task.pk))
        return counts.nr - last == counts.beyond

    @transaction.atomic
    def _advance(self, task: Task, counts: Counts) -> bool:
        """Records, in one transaction, the counts of the layer, and the next layer, paused if the
        task pauses between layers. False if it has changed meanwhile."""
        rows = Task.objects.filter(pk=task.pk, layer=task.layer, state__in=GOING)
        if not rows.select_for_update().values_list("pk", flat=True):
            return False
        layers.record(task, counts, Now())
        if task.settings.get("pause_layers"):
            budgets.stop_clock(task.pk)
            rows.update(layer=task.layer + 1, state=Task.State.PAUSED)
        else:
            rows.update(layer=task.layer + 1)
        log.info("layer %d of task %d is done", task.layer, task.pk)
        return True
