"""Layers: the barriers of tasks that are crawled one depth after the other."""

from __future__ import annotations

from typing import NamedTuple

from crawlframe.frontier.client.rows import StorePart


class Reached(NamedTuple):
    """``layers``: the layer of the task in each partition; None: it is not known there, or not
    crawled in layers. ``hidden``: whether something is still to be shown that the layer has
    reached, because a caller of ``go_on`` died."""

    layers: list[int | None]
    hidden: bool

    def is_at(self, layer: int) -> bool:
        """Whether all partitions are at this layer, and show all of it."""
        return not self.hidden and {*self.layers} == {layer}

    def is_after(self, layer: int) -> bool:
        """Whether some partition is at a later one."""
        return any(one is not None and one > layer for one in self.layers)


class Layers(StorePart):
    """A task that was opened with ``layers`` shows no requests that are deeper than its layer. A
    layer is done when nothing else is pending: that is when its counts, read after ``reached`` has
    found all partitions at it, say ``nr == beyond``, not counting its last request. Only then
    may ``go_on`` be called, and only with the next one."""

    def reached(self, task: int) -> Reached:
        """The layer and depth that the task has reached."""
        layers: list[int | None] = []
        hidden = False
        for partition, keys in enumerate(self._store.keys):
            name = keys("TASK", task)
            found = self._store.redis.hget(name, "layer")
            layer = None
            if found is not None:
                layer = self._rows.read_row(
                    "TASK", b"layer", found, lambda _, value: int(value), None, task, partition
                )
                first = self._store.redis.zrange(keys("DEEP", task), 0, 0, withscores=True)
                hidden = hidden or (layer is not None and bool(first) and first[0][1] <= layer)
            layers.append(layer)
        return Reached(layers, hidden)

    def go_on(self, task: int, layer: int) -> None:
        """Brings every partition to this layer, if it is not there or further, and shows the
        requests that waited for it. May be interrupted and repeated. A partition that does not know
        the task is left out."""
        for partition in range(self._store.partitions):
            while self._store.run("layer", partition, task, layer) > 0:
                pass
