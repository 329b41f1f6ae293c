"""Table: the costs of all sizes, relative to those of the smallest one, and the goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.growth.cell import Cost
from benchmarks.lab.results import Spread

GOAL = 1.3  # times the cost, from the first to the last size of a row
NAMES = {"queued": "queued", "tasks": "open tasks", "hosts": "hosts", "ledger": "ledger rows"}


class Line(NamedTuple):
    """One size of what grows."""

    name: str
    size: int
    mib: float  # of Redis
    costs: list[Cost]  # by rounds

    def spread(self, part: str) -> Spread:
        return Spread.of(getattr(cost, part) for cost in self.costs)

    def times(self, first: Line, part: str) -> Spread:
        """The growth of a part of the cost since the first size, by rounds."""
        pairs = zip(first.costs, self.costs, strict=True)
        return Spread.of(getattr(late, part) / getattr(early, part) for early, late in pairs)


def rows(lines: Sequence[Line]) -> Iterator[list[str]]:
    first = lines[0]
    for line in lines:
        if line.name != first.name:
            first = line
        cells = [f"{line.size:,} {NAMES[line.name]}"]
        for part in ("node", "redis"):
            times = line.times(first, part).text() if line is not first else ""
            cells += [line.spread(part).text(".0f"), times]
        yield [*cells, line.spread("postgres").text(".0f"), f"{line.mib:,.1f}"]


def goals(lines: Sequence[Line]) -> list[str]:
    """The growth from the first to the last size, beside the goal."""
    told = []
    for name in dict.fromkeys(line.name for line in lines):
        first, *_, last = (line for line in lines if line.name == name)
        node, redis = (last.times(first, part) for part in ("node", "redis"))
        verdict = "met" if max(node.median, redis.median) <= GOAL else "missed"
        told.append(
            f"goal {GOAL} times from {first.size:,} to {last.size:,} {NAMES[name]}: "
            f"{node.text()} of the node, {redis.text()} of Redis: {verdict}"
        )
    return told
