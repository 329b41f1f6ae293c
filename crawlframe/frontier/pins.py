"""Pins: the generation that serves a task all of whose requests run in one worker."""

from __future__ import annotations

from collections.abc import Iterable

from crawlframe.frontier.partitions import PartitionedStore


class Pins:
    """A generation serves such a task until it dies or leaves. The first partition decides which
    one does, and the others learn it."""

    def __init__(self, store: PartitionedStore) -> None:
        self._store = store

    def take(self, task: int, generation: int) -> bool:
        """Gives a task to a generation if no living one serves it. Returns whether it does."""
        holder = b""
        for partition in range(self._store.partitions):
            holder = self._store.run("pin", partition, task, generation, holder) or b""
        return holder == b"%d" % generation

    def leave(self, tasks: Iterable[int], generation: int) -> None:
        """Lets others serve those of the tasks that the generation serves and holds nothing of: it
        lacks their code."""
        for task in tasks:
            for partition in range(self._store.partitions):
                self._store.run("unpin", partition, task, generation)
