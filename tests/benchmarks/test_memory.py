from __future__ import annotations

import math

import pytest

from benchmarks.memory.growth import SETTLED, Sample, growth

PAGES = 2 * SETTLED


def sample(pages: int, queued: int, worker: int, redis: int = 0) -> Sample:
    sizes = {"master": 50, "worker": worker}
    return Sample(pages / 1000, pages, queued, sizes, sizes, sizes, redis, 2 * redis)


def test_growth_after_the_warm_up_is_a_slope_per_thousand_pages() -> None:
    # Before the warm-up ends the worker allocates a lot, which means nothing.
    samples = [sample(n, 0, 10**9 if n < SETTLED else 7 * n) for n in range(0, PAGES + 1, 5000)]
    master, worker, _ = growth(samples, SETTLED)
    assert worker.name == "worker"
    assert worker.slope == pytest.approx(7000)
    assert worker.first == 7 * SETTLED
    assert worker.last == worker.thirds[-1] == 7 * PAGES
    assert worker.thirds == tuple(sorted(worker.thirds))
    assert (master.name, master.slope, master.thirds) == ("master", 0, (50, 50, 50))


def test_a_short_crawl_has_no_slope() -> None:
    samples = [sample(n, 0, n) for n in range(100)]
    assert all(math.isnan(row.slope) for row in growth(samples, 10))
    assert growth(samples, 100) == []


def test_a_worker_that_did_not_live_all_the_time_is_no_row() -> None:
    samples = [sample(n, 0, n) for n in range(50)]
    samples[40] = samples[40]._replace(uss={"master": 50, "worker 2": 1})
    assert [row.name for row in growth(samples, 10)] == ["master", "Redis"]
