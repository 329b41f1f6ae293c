"""Footprint: the memory of the browser's processes, and how much they may have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

SHARE = 0.6  # of the memory of the machine, or of the container, that browsers have at most
CGROUP = Path("/sys/fs/cgroup/memory.max")


def proportional(processes: Iterable[psutil.Process]) -> int:
    """Bytes of these processes together (PSS): shared memory counts once. Where the system does not
    say, their resident bytes."""
    return sum(map(_of_one, processes))


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants; none if it has ended."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def allowed(wanted: int, limit: Path = CGROUP) -> int:
    """The part of ``wanted`` bytes that fits into this machine and container."""
    most = psutil.virtual_memory().total
    try:
        most = min(most, int(limit.read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        pass
    return min(wanted, int(SHARE * most))


def _of_one(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
