"""The policy in simulated time: 90 days of a changing site, rates unknown at the start."""

from __future__ import annotations

import pytest

from tests.revisit.world import Optimal, Signals, Site, run, shares

pytestmark = pytest.mark.slow


def best(site: Site, budget: float) -> float:
    """The best freshness with known rates, for ever."""
    return site.fresh(shares(site.rates, site.importance, budget))


@pytest.mark.parametrize(
    ("share", "least"), [pytest.param(0.05, 0.466, marks=pytest.mark.long), (0.2, 0.654)]
)
def test_freshness_is_near_the_optimum_though_rates_are_unknown(share: float, least: float) -> None:
    site = Site.of()
    budget = share * sum(site.rates)
    ours = run(site, Optimal(site, budget), budget)
    assert ours.fresh >= max(least, 0.95 * best(site, budget))
    assert ours.visits <= 1.001 * 90 * budget


def test_with_much_to_spend_too() -> None:
    site = Site.of(300)
    budget = sum(site.rates)
    ours = run(site, Optimal(site, budget), budget)
    assert ours.fresh >= 0.95 * best(site, budget)


def test_sitemaps_help_and_lies_cost_little() -> None:
    site = Site.of(400)
    budget = 0.2 * sum(site.rates)
    alone = run(site, Optimal(site, budget), budget)
    told = run(site, Optimal(site, budget), budget, signals=Signals(precision=0.8, recall=0.6))
    lied = run(site, Optimal(site, budget), budget, signals=Signals(lies=True))
    assert told.fresh > alone.fresh
    assert lied.fresh >= 0.98 * alone.fresh
