"""Rule: whether pairs of measurements, of the recorded commit and of this checkout, show that a
figure has become worse.

A sitting is suspect when the median of its ratios is above BOUND and at least SHARE of them are
above 1. A figure is worse when a second sitting, with new processes, is suspect too.

Of ten pairs that are equal but for noise, and differ by a factor of 1.1 (one standard deviation),
one sitting in 40 is suspect, and one figure in 1,000 worse; by 1.2, one in 300. If the figure has
risen by 20 % and pairs differ by 1.1, 99 of 100 are found."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

BOUND = 1.05  # of the median
SHARE = 0.75  # of the pairs


class Pair(NamedTuple):
    """One figure of both sides, measured one after the other."""

    old: float
    new: float

    @property
    def ratio(self) -> float:
        return self.new / self.old


class Ratios(NamedTuple):
    """The ratios of a sitting, in ascending order."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Ratios:
        return cls(tuple(sorted(pair.ratio for pair in pairs)))

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def above(self) -> int:
        """The pairs in which this checkout was slower."""
        return sum(ratio > 1 for ratio in self.values)

    @property
    def suspect(self) -> bool:
        return self.median > BOUND and self.above >= SHARE * len(self.values)

    def text(self) -> str:
        """The median, with its quartiles."""
        low, _, high = statistics.quantiles(self.values, method="inclusive")
        return f"{self.median:.3f} ({low:.3f}-{high:.3f})"
