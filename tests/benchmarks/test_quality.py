"""A short version of the benchmark of the quality of runs: the same code, fewer histories."""

from __future__ import annotations

import pytest

from benchmarks.quality.__main__ import figures
from benchmarks.quality.faults import FAULTS
from benchmarks.quality.sites import SHAPES, Site
from benchmarks.quality.trial import Result, history, plan


@pytest.mark.parametrize(("fault", "seed"), [(fault, 10 + 5 * n) for n, fault in enumerate(FAULTS)])
def test_each_fault_is_found_and_no_good_run_before_it_is_blamed(fault: str, seed: int) -> None:
    results = [*history(seed, fault)]
    made = figures(results)
    assert (made["faults"], made["found"], made["missed"]) == (1, 1, [])
    assert made["blamed"] == 0
    assert results[-1].delay > 0


def test_sites_are_the_same_for_a_seed_and_differ_in_shape() -> None:
    assert [Site(seed).shape for seed in range(5)] == list(SHAPES)
    one, same = Site(3).run(7), Site(3).run(7)
    assert one == same
    assert sum(len(page.items) for page in Site(4).run(0)) > 2000


def test_half_of_the_histories_have_a_fault_all_kinds_in_turn() -> None:
    planned = plan(0, 60)
    faults = [fault for _, fault in planned if fault]
    assert len(faults) == 30
    assert {*faults} == {*FAULTS}


def test_what_was_found_before_the_fault_is_no_delay() -> None:
    from benchmarks.quality.trial import Seen

    late = Result(1, "small", 12, "field gone", 0.5, Seen([], 0.75), 40)
    assert late.delay == 0.25
    assert not late.is_found
