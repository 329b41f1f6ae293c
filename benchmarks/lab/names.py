"""Names: the names of a node's processes, which all have the same command line."""

from __future__ import annotations

from collections.abc import Callable

import psutil

# In the order of their start; all later ones are workers. The keeper waits for the template, which
# is its fork.
FIRST = ("master", "steward", "browser", "keeper", "template", "worker")


class Names:
    """``processes`` returns the living ones of a node; ``first`` are their names in the order of
    their births."""

    def __init__(
        self, processes: Callable[[], list[psutil.Process]], first: tuple[str, ...] = FIRST
    ) -> None:
        self._processes = processes
        self._first = first
        self._names: dict[psutil.Process, str] = {}

    def of_all(self) -> list[tuple[psutil.Process, str]]:
        """Each living process with its name."""
        living = sorted(self._processes(), key=lambda process: (_born(process), process.pid))
        for process in living:
            if process not in self._names:
                place, last = len(self._names), len(self._first) - 1
                name = self._first[place] if place <= last else f"worker {place - last + 1}"
                self._names[process] = name
        return [(process, self._names[process]) for process in living]


def _born(process: psutil.Process) -> float:
    try:
        return float(process.create_time())
    except psutil.Error:
        return float("inf")
