"""Memory: the memory of the processes above the workers, reload after reload."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import psutil

WARM = 10  # reloads after which a process has reached its normal size
ENOUGH = 40  # samples that suffice for a slope


class Sample(NamedTuple):
    """After a reload. Sizes in KiB; ``uss`` is what only this process holds."""

    reload: int
    supervisor_uss: int
    supervisor_rss: int
    supervisor_fds: int
    master_uss: int
    master_rss: int
    master_fds: int
    processes: int  # of the whole node

    @classmethod
    def take(cls, number: int, supervisor: psutil.Process, master: psutil.Process) -> Sample:
        processes = 1 + len(supervisor.children(recursive=True))
        return cls(number, *_sizes(supervisor), *_sizes(master), processes)


def _sizes(process: psutil.Process) -> tuple[int, int, int]:
    memory = process.memory_full_info()
    return memory.uss >> 10, memory.rss >> 10, process.num_fds()


class Growth(NamedTuple):
    """One column of the samples."""

    name: str
    first: int
    last: int
    highest: int
    per_thousand: float | None  # per 1,000 reloads, by linear regression; None: too few samples


def growth(samples: Sequence[Sample]) -> list[Growth]:
    """The trend of each figure after the first few reloads."""
    kept = samples[min(WARM, len(samples) // 2) :]
    numbers = [sample.reload for sample in kept]
    found = []
    for place, name in enumerate(Sample._fields[1:], 1):
        values = [sample[place] for sample in kept]
        slope = None
        if len(kept) >= ENOUGH:
            slope = 1000 * statistics.linear_regression(numbers, values).slope
        found.append(Growth(name, values[0], values[-1], max(values), slope))
    return found
