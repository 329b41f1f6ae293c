"""Memory of the processes of a cluster during faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from statistics import median

import psutil

from tests.faults.cluster import Cluster

MIB = 1 << 20
ENOUGH = 30  # samples needed to detect growth
GROWTH = 1.3  # factor; a fresh process uses less than one that has worked


class Memory:
    """The memory of masters and of all other processes, in bytes, per sample."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._looks: dict[str, list[int]] = {"masters": [], "children": []}

    def look(self) -> None:
        for name, processes in (
            ("masters", self._cluster.masters()),
            ("children", self._cluster.children()),
        ):
            for process in processes:
                with suppress(psutil.Error):
                    self._looks[name].append(process.memory_info().rss)

    def violations(self) -> Iterator[str]:
        for name, looks in self._looks.items():
            first, last = self._thirds(looks)
            if len(looks) > ENOUGH and last > GROWTH * first:
                yield f"{name} grew from {first // MIB} to {last // MIB} MiB"

    def __str__(self) -> str:
        words = []
        for name, looks in self._looks.items():
            first, last = self._thirds(looks)
            words.append(
                f"{name}: {first / MIB:.0f} MiB in the first third, {last / MIB:.0f} in the last, "
                f"{max(looks) / MIB:.0f} at most"
            )
        return "; ".join(words)

    def _thirds(self, looks: list[int]) -> tuple[float, float]:
        third = max(1, len(looks) // 3)
        return median(looks[:third]), median(looks[-third:])
