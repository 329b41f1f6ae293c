"""The policy: rates learned from visits, intervals, the allotment, and trust in sitemaps."""

from __future__ import annotations

import math
import random

import pytest

from crawlframe.revisit.interval import (
    due_after,
    fresh_time,
    gain,
    is_near,
    next_level,
    replanned,
    survival,
)
from crawlframe.revisit.rates import Belief, Evidence, digamma, fit, learn
from crawlframe.revisit.trust import Trust, due_times, learn_with

PRIOR = Belief(0.5, 5.0)


def watched(rate: float, intervals: list[float], draw: random.Random) -> Evidence:
    evidence = Evidence()
    for interval in intervals:
        evidence = learn(PRIOR, evidence, interval, draw.random() < -math.expm1(-rate * interval))
    return evidence


@pytest.mark.parametrize("rate", [0.02, 0.3, 4.0])
def test_rates_are_learned_without_bias_from_irregular_visits(rate: float) -> None:
    draw = random.Random(3)
    intervals = [draw.expovariate(0.5 * rate) for _ in range(3000)]  # mostly several changes
    learned = watched(rate, intervals, draw).over(PRIOR).mean
    assert learned == pytest.approx(rate, rel=0.1)
    # The naive estimate, changes seen per time, is a third of it.
    seen = sum(-math.expm1(-rate * some) for some in intervals) / sum(intervals)
    assert seen < 0.4 * rate


def test_a_change_whose_time_is_known_counts_fully() -> None:
    evidence = learn(PRIOR, Evidence(), 10.0, True, seen_at=2.0)
    assert evidence == Evidence(1.0, 2.0)


def test_an_interval_of_nothing_teaches_nothing() -> None:
    assert learn(PRIOR, Evidence(1, 1), 0.0, True) == Evidence(1, 1)


def test_the_prior_is_that_of_the_population() -> None:
    draw = random.Random(1)
    pages = [
        watched(draw.gammavariate(0.8, 0.5), [draw.uniform(0.5, 3) for _ in range(30)], draw)
        for _ in range(600)
    ]
    prior = PRIOR
    for _ in range(30):
        prior = fit(prior, pages)
    assert prior.mean == pytest.approx(0.4, rel=0.15)
    assert 0.5 < prior.shape < 1.3
    assert fit(PRIOR, []) == PRIOR


def test_digamma() -> None:
    assert digamma(1.0) == pytest.approx(-0.5772156649, abs=1e-9)
    assert digamma(0.25) == pytest.approx(-4.2274535334, abs=1e-9)


def test_fresh_time_is_the_integral_of_survival() -> None:
    for belief in (PRIOR, Belief(1.0, 2.0), Belief(7.0, 3.0)):
        steps = 20000
        whole = sum(survival(belief, 9 * (n + 0.5) / steps) for n in range(steps)) * 9 / steps
        assert fresh_time(belief, 9) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("wanted", [1e-6, 0.01, 1.0, 30.0])
def test_the_interval_has_the_gain_that_is_wanted(wanted: float) -> None:
    for belief in (PRIOR, Belief(1.0, 2.0), Belief(0.2, 300.0)):
        interval = due_after(belief, wanted, 1e9)
        assert gain(belief, interval) == pytest.approx(wanted, rel=1e-3)
    assert due_after(Belief(20.0, 0.1), wanted + 1, 365.0) == 365.0  # never worth it


def test_levels_meet_the_budget() -> None:
    beliefs = [Belief(0.5, 0.5 + n) for n in range(50)]
    level, budget = 1.0, 2.0
    for _ in range(30):
        demand = sum(1 / due_after(belief, level, 365.0) for belief in beliefs)
        if is_near(demand, budget):
            break
        level = next_level(level, demand, budget)
    assert demand == pytest.approx(budget, rel=0.06)
    assert next_level(1.0, 0.0, 5.0) == 1.0
    assert replanned(3.0, 10.0, 20.0) == 6.0
    assert replanned(-3.0, 10.0, 20.0) == 0.0


def visits(trust: Trust, said_when_changed: float, said_when_same: float) -> Trust:
    draw = random.Random(2)
    belief = Belief(5.0, 5.0)
    for _ in range(400):
        changed = draw.random() < 0.6
        said = draw.random() < (said_when_changed if changed else said_when_same)
        trust = trust.counted(belief, 1.0, changed, 0.5 if said else None)
    return trust


def test_a_sitemap_that_tells_the_truth_is_listened_to() -> None:
    trust = visits(Trust(), 0.6, 0.05)
    assert trust.is_worth
    assert 0.3 < trust.recall < 0.95
    times = due_times(PRIOR, trust, 1.0, 365.0)
    assert times.said < due_after(PRIOR, 1.0, 365.0) < times.silent
    assert times.said <= times.mean <= times.silent


def test_a_sitemap_that_always_says_now_is_not() -> None:
    trust = visits(Trust(), 1.0, 1.0)
    assert not trust.is_worth
    interval = due_after(PRIOR, 1.0, 365.0)
    assert due_times(PRIOR, trust, 1.0, 365.0) == (interval, interval, interval)
    assert learn_with(trust, PRIOR, Evidence(), 2.0, True, 0.1) == learn(
        PRIOR, Evidence(), 2.0, True
    )


def test_what_a_good_sitemap_kept_quiet_about_was_rare() -> None:
    trust = visits(Trust(), 0.6, 0.05)
    heard = learn_with(trust, PRIOR, Evidence(), 5.0, True, None).over(PRIOR)
    assert heard.mean < learn(PRIOR, Evidence(), 5.0, True).over(PRIOR).mean
