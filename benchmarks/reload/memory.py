"""Memory: the memory of the processes above the workers, reload after reload."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import psutil

WARM = 10  # reloads after which a process has reached its normal size
ENOUGH = 40  # samples that suffice for a slope


class Sample(NamedTuple):
    """Memory after a reload. Sizes in KiB; ``uss`` is private to the process."""

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


def slope(samples: Sequence[Sample], name: str) -> float:
    """Growth of a figure per 1,000 reloads, by linear regression after the first few; nan: there
    are too few samples."""
    kept = samples[WARM:]
    if len(kept) < ENOUGH:
        return math.nan
    numbers, values = ([getattr(one, field) for one in kept] for field in ("reload", name))
    return 1000 * statistics.linear_regression(numbers, values).slope
