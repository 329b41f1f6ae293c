"""Blame: determines which requests are held responsible for the death of a worker."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection
from pathlib import Path

from crawlframe.node.child_process import Child

CGROUP, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")
POLL_EVERY = 1.0  # seconds between two readings of the count
SHORTAGE_SECONDS = 5.0  # seconds within which one shortage of memory may kill several workers


def blamed(child: Child, code: int | None, *, lack_of_memory: bool) -> frozenset[bytes]:
    """Returns the rids to blame among the requests of a dead worker. ``code`` is its exit code,
    None if unknown; ``lack_of_memory``: whether the kernel has just killed a process for lack of
    memory.

    A worker that was killed because it did not end in time blames none. Otherwise the requests
    whose callbacks were running are blamed. If none was, a worker that was killed from outside
    (SIGKILL, not sent by us nor for lack of memory) blames none, and any other blames all rids that
    it held."""
    held = frozenset(child.held)
    if code == 0 or child.dismissed:
        return frozenset()
    if running := child.running:
        return running & held
    from_outside = code == -signal.SIGKILL and not child.overdue and not lack_of_memory
    return frozenset() if from_outside else held


class Shortage:
    """Detects when the kernel kills processes for lack of memory, where it reports that (Linux)."""

    def __init__(self, sources: Collection[Path] | None = None) -> None:
        """``sources``: files with a line ``oom_kill <count>``; the first that has one is used."""
        self._sources = (_own_cgroup(), VMSTAT) if sources is None else sources
        self._count = self._read()
        self._seen = -SHORTAGE_SECONDS  # time.monotonic() at which the count was seen to have grown
        self._next_poll = 0.0

    def watch(self) -> None:
        """Must be called regularly, because the count does not show when it grew."""
        if time.monotonic() >= self._next_poll:
            self._poll()

    def is_here(self) -> bool:
        """Whether the kernel has killed a process just now."""
        self._poll()
        return time.monotonic() - self._seen < SHORTAGE_SECONDS

    def _poll(self) -> None:
        now = time.monotonic()
        before, self._count, self._next_poll = self._count, self._read(), now + POLL_EVERY
        if self._count > before:
            self._seen = now

    def _read(self) -> int:
        for source in self._sources:
            try:
                lines = source.read_text().splitlines()
            except OSError:
                continue
            for line in lines:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0


def _own_cgroup() -> Path:
    """The file with the count of this process's control group alone (cgroup v2)."""
    try:
        group = CGROUP.read_text().partition("0::")[2].partition("\n")[0]
    except OSError:
        group = ""
    return CGROUPS / group.strip("/") / "memory.events"
