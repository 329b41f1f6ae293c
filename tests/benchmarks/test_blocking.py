from __future__ import annotations

import pytest

from benchmarks.blocking.times import Times

TIMES = Times([3.0, 1.0, 1.0, 1.5, 2.0, 7.5, 9.0])


def test_a_rate_counts_what_was_stored_between_two_moments() -> None:
    assert TIMES.rate(1.0, 3.0) == 2.0
    assert TIMES.rate(3.0, 7.0) == 0.25
    assert TIMES.curve(1.0, 3.4, 1.0) == [(0.0, 3.0), (1.0, 1.0)]


@pytest.mark.parametrize(
    ("start", "end", "longest"),
    [(0.0, 8.0, 4.5), (0.0, 2.0, 1.0), (4.0, 7.0, 3.0), (9.0, 20.0, 11.0)],
)
def test_a_standstill_may_last_from_the_start_or_to_the_end(
    start: float, end: float, longest: float
) -> None:
    assert TIMES.still(start, end) == longest
