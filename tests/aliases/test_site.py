"""Rules of a real site on loopback, by a worker's engine: fetches saved, no page lost."""

from __future__ import annotations

import pytest

from tests.aliases.site import KINDS, TRAPS, Site
from tests.aliases.trial import trial

pytestmark = pytest.mark.slow

ITEMS = 60


def test_six_kinds_of_aliases_are_found() -> None:
    score, rules, crawl = trial(Site(ITEMS))
    assert {one.kind for one in rules} == {"query", "path", "index", "sort", "id"}
    assert {name for one in rules for name in one.names} >= {"sid", "utm_source"}
    assert score.precision == 1.0
    assert score.recall >= 0.9
    assert score.lost == 0
    assert score.saved > len(crawl.targets), "more URLs are aliases than pages"
    assert score.spent <= 60
    assert crawl.aliases >= score.dropped
    assert any("is not fetched: it is" in line for line in crawl.said)


def test_the_same_urls_without_aliases_lose_no_page() -> None:
    score, rules, crawl = trial(Site(ITEMS, apart=True))
    assert rules == ()
    assert (score.lost, score.wrong, crawl.aliases) == (0, 0, 0)


def test_traps() -> None:
    score, rules, _ = trial(Site(ITEMS, traps=TRAPS))
    assert (score.lost, score.precision) == (0, 1.0)
    told = {str(one) for one in rules}
    assert "ignore sid" in told, "the rest is learned"
    wrong = {"sort only sorts", "ignore view", "ignore case in paths", "ignore user"}
    assert told.isdisjoint(wrong)


def test_rules_of_a_part_of_the_pages_lose_none_of_the_rest() -> None:
    site = Site(ITEMS, kinds=KINDS, traps=TRAPS)
    score, _, _ = trial(site, share=0.5)
    assert (score.lost, score.precision) == (0, 1.0)
