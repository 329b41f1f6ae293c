"""Names: the names of a node's processes."""

from __future__ import annotations

from collections.abc import Callable

import psutil

# In the order in which a master starts them; all later ones are workers.
FIRST = ("master", "steward", "template", "worker")


class Names:
    """``processes`` returns the living ones of a node that does not reload its code."""

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self._processes = processes
        self._names: dict[psutil.Process, str] = {}

    def of_all(self) -> list[tuple[psutil.Process, str]]:
        """Each living process with its name."""
        living = sorted(self._processes(), key=lambda process: (_born(process), process.pid))
        for process in living:
            if process not in self._names:
                place = len(self._names)
                name = FIRST[place] if place < len(FIRST) else f"worker {place - 2}"
                self._names[process] = name
        return [(process, self._names[process]) for process in living]


def _born(process: psutil.Process) -> float:
    try:
        return float(process.create_time())
    except psutil.Error:
        return float("inf")
