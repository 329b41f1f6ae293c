"""Chores of the cluster: migrations, Redis, dead nodes, tasks and their quality, old rows."""

from __future__ import annotations

from crawlframe.node import supervisor_messages
from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.connections.other_databases import Migrations
from crawlservice.ledger.commit_order import CommitOrder
from crawlservice.models import Page, Profile, Task
from crawlservice.quality.reader import Bounds
from crawlservice.quality.watch import QualityWatch
from crawlservice.rollouts.status import take_back
from crawlservice.steward.nodes import DeadNodes, RedisCheck
from crawlservice.steward.pruning import Pruner
from crawlservice.steward.task_chore import TaskChore


class MigrationWatch:
    """Tells the supervisor which migrations are applied: its framework may wait for some."""

    def __init__(self, steward: ChoreContext) -> None:
        self._steward = steward
        self._applied, self._sent = Migrations(), ""

    def tick(self) -> None:
        """Raises django.db.Error."""
        if self._applied.matter and (mark := self._applied.mark()) != self._sent:
            self._steward.send(supervisor_messages.Migrations(mark))
            self._sent = mark


class Quality:
    """Reads and judges the items of tasks, and acts on findings. Here, because it takes a rollout
    back, too."""

    def __init__(self, steward: ChoreContext) -> None:
        items, pages = CommitOrder(), CommitOrder(Page)
        self._steward = steward
        self._watch = QualityWatch(lambda: Bounds(items.settled(), pages.settled()), take_back)

    def tick(self) -> None:
        """Raises django.db.Error."""
        self._watch.tick(self._steward.counts)


CHORES = (
    Chore("migrations", MigrationWatch, period=5.0, everywhere=True),
    Chore("Redis", RedisCheck, needed=True),
    Chore("dead nodes", DeadNodes, needed=True),
    Chore("tasks", TaskChore),
    Chore(
        "quality",
        Quality,
        used=lambda: [
            Task.objects.filter(state__in=Task.ACTIVE),
            Profile.objects.filter(judged=False),
            Profile.objects.exclude(action_due=""),
        ],
    ),
    Chore("pruning", lambda steward: Pruner.of(steward.frontier)),
)
