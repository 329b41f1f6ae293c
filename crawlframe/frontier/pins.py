"""Pins: the generation that serves a task all of whose requests run in one worker."""

from __future__ import annotations

from collections.abc import Iterable

from crawlframe.frontier.client.rows import StorePart


class TaskPins(StorePart):
    """A generation serves such a task until it dies or leaves. The first partition decides which
    one does, and the others learn it."""

    def take(self, task: int, generation: int) -> bool:
        """Gives a task to a generation if no living one serves it. Returns whether it does."""
        holder = self._store.run("pin", 0, task, generation, b"") or b""
        for partition in range(1, self._store.partitions) if holder else ():
            self._store.run("pin", partition, task, generation, holder)
        return holder == b"%d" % generation

    def leave(self, tasks: Iterable[int], generation: int) -> None:
        """Lets others serve the pinned tasks with nothing in progress in this generation: it lacks
        their code."""
        for task in tasks:
            self._leave(task, generation)

    def _leave(self, task: int, generation: int) -> None:
        """The first partition is left first and given up last: meanwhile no node is given the task,
        so requests that another partition was found not to hold cannot come back."""
        mine, leaving, nobody = b"%d" % generation, b"-%d" % generation, b"0"
        if self._unpin(0, task, generation, mine, leaving) != 1:
            return
        others = range(1, self._store.partitions)
        left = all(self._unpin(one, task, generation, mine, nobody) for one in others)
        self._unpin(0, task, generation, leaving, nobody if left else mine)

    def _unpin(self, partition: int, task: int, generation: int, old: bytes, new: bytes) -> int:
        return int(self._store.run("unpin", partition, task, generation, old, new))
