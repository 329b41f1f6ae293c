"""Campaign: many seeds, and the shortest schedule of faults for a seed that fails."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, takewhile

from tests.simulation.cluster import Setup
from tests.simulation.faults import Fault
from tests.simulation.simulation import Result, Simulation


@dataclass
class Totals:
    """The sum of several results."""

    seeds: int = 0
    nodes: int = 0
    simulated_s: float = 0.0
    steps: int = 0
    faults: int = 0
    crawls: int = 0
    fetches: int = 0
    longest_end_s: float = 0.0  # from the last request of a task to its end, in a quiet cluster
    violations: int = 0  # seeds with violations
    bad: list[int] = field(default_factory=list)
    checksum: int = 0

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.nodes += result.nodes
        self.simulated_s += result.simulated
        self.steps += result.steps
        self.faults += len(result.faults)
        self.crawls += result.crawls
        self.fetches += result.fetches
        self.longest_end_s = max(self.longest_end_s, result.longest_end)
        self.checksum = zlib.crc32(result.trace.to_bytes(8, "big"), self.checksum)
        if result.violations:
            self.violations += 1
            self.bad.append(result.seed)

    def as_json(self, wall: float) -> dict[str, object]:
        found = asdict(self) | {"bad": self.bad[:50], "trace": f"{self.checksum:08x}"}
        del found["checksum"]
        for name, seconds in (("wall_s", wall), *found.items()):
            if name.endswith("_s"):
                found[name] = round(seconds, 1)
        return found


def run(setup: Setup, first: int, number: int, goes_on: Callable[[int], bool]) -> Iterator[Result]:
    """The results of the seeds from ``first`` on, each with ``number`` faults, while ``goes_on``
    says so of how many have been run."""
    for done in takewhile(goes_on, count()):
        yield attempt(setup, first + done, number)


def shrink(setup: Setup, result: Result, say: Callable[[str], object], tries: int = 60) -> Result:
    """The result of the seed with the fewest faults that still fail (ddmin: Zeller and Hildebrandt,
    TSE 2002). ``tries``: simulations at most."""
    best = result
    parts = 2
    while tries > 0 and len(best.faults) > 0:
        faults = [*best.faults]
        size = max(1, len(faults) // parts)
        shorter = None
        for start in range(0, len(faults), size):
            if tries <= 0:
                break
            tries -= 1
            rest = faults[:start] + faults[start + size :]
            found = attempt(setup, best.seed, faults=rest)
            if found.violations:
                shorter = found
                break
        if shorter is not None:
            best, parts = shorter, max(2, parts - 1)
            say(f"{len(best.faults)} faults still fail")
        elif size == 1:
            break
        else:
            parts = min(len(faults), 2 * parts)
    return best


def attempt(
    setup: Setup, seed: int, number: int = 8, faults: Sequence[Fault] | None = None
) -> Result:
    """One run, with ``number`` faults, or ``faults`` in place of the seed's own."""
    gc.collect()
    return Simulation(setup, seed, number=number, faults=faults).run()
