from __future__ import annotations

import pytest

from benchmarks.scaling.cluster import Run, Size
from benchmarks.scaling.limits import limit


def run(busy: float, *, workers: int = 1, **cpu: float) -> Run:
    parts = dict.fromkeys(("crawler", "site", "Redis", "PostgreSQL"), 0.5)
    return Run(Size(1, workers), 1000, 10.0, {**parts, **cpu}, busy)


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (run(1.9, crawler=16.0), "the processors (crawler 84% of what they did)"),
        (run(2.0, crawler=8.0), "the processors (crawler 40% of what they did, strangers 52%)"),
        (run(1.2, crawler=1.0, Redis=9.5), "Redis: one processor is all it can use"),
        (run(1.2, crawler=9.5), "the workers: each has one event loop"),
        (run(1.2, crawler=9.5, workers=2), "waiting: neither the processors nor a server was busy"),
    ],
)
def test_the_limit_names_who_was_busy(done: Run, told: str) -> None:
    assert limit(done, 2).startswith(told)


def test_shares_and_cost_per_page() -> None:
    done = run(1.0, crawler=4.0)
    assert (done.rate, done.share("crawler"), done.per_page("crawler")) == (100, 0.4, 4)
    assert Size(1, 2).label == "1 node x 2 workers"
    assert Size(3, 1).label == "3 nodes x 1 worker"
