"""Watches under load: many visits make few rounds, and many found pages hold no lock for long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F

from crawlframe.revisit import Revisit
from crawlframe.run.ledger import LedgerAway
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Page, Task, Watch, WatchedPage
from crawlservice.watches import editing, found, picker
from tests.crawlservice.watches.conftest import Site
from tests.crawlservice.watches.test_endurance import begin, rounds_of
from tests.crawlservice.watches.test_rounds import like, page

BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows

Ahead = Callable[..., None]


# -- few rounds -----------------------------------------------------------------------------------


def test_a_budget_is_spent_in_few_rounds(site: Site, ahead: Ahead) -> None:
    watch = begin(site, 600, Revisit(budget=2400))
    editing.set_budget(watch.pk, budget=None)
    Watch.objects.filter(pk=watch.pk).update(start_at=F("start_at") + timedelta(days=9))
    # All are due, and the burst is spent.
    WatchedPage.objects.update(next_at=F("next_at") - timedelta(days=9))
    site.all_rounds(watch)
    rounds, visits = Task.objects.count(), len(site.visited)
    for _ in range(60):
        ahead(seconds=60)
        site.round(watch)
    visited = len(site.visited) - visits
    assert 0.98 * 100 <= visited <= 101  # in one hour
    assert Task.objects.count() - rounds <= 13


def test_what_is_due_waits_for_others_and_not_for_long(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(every="12h")))
    site.links["start"] = ["a", "b", "c"]
    watch = site.begin()
    site.all_rounds(watch)
    WatchedPage.objects.filter(pk=page("b").pk).update(next_at=F("next_at") + timedelta(minutes=2))
    ahead(hours=12, seconds=1)
    assert site.round(watch) == ["a", "c"]
    ahead(minutes=3)
    assert site.round(watch) == []
    ahead(minutes=3)
    assert site.round(watch) == ["b"]


def test_a_short_interval_does_not_wait(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(every="1m")))
    site.links["start"] = ["a", "b"]
    watch = site.begin()
    site.all_rounds(watch)
    WatchedPage.objects.filter(pk=page("b").pk).update(next_at=F("next_at") + timedelta(seconds=2))
    ahead(seconds=61)
    assert site.round(watch) == ["a"]
    ahead(seconds=3)
    assert site.round(watch) == ["b"]


@BOTH
@pytest.mark.parametrize("why", ["wanted", "new", "said", "enough"])
def test_some_do_not_wait(
    site: Site, ahead: Ahead, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    watch = begin(site, 3, Revisit(budget=1e6))
    Watch.objects.filter(pk=watch.pk).update(start_at=F("start_at") + timedelta(days=9))
    Watch.objects.update(round_at=F("start_at") - timedelta(days=10))
    ahead(seconds=6)
    WatchedPage.objects.update(next_at=F("first_seen") + timedelta(days=9), every=1e6)
    rows = WatchedPage.objects.filter(pk=page("p0").pk)
    rows.update(next_at=F("first_seen"))
    site.round(watch)
    rows.update(next_at=F("first_seen"), every=1e6)
    ahead(seconds=6)
    assert site.round(watch) == []
    if why == "wanted":
        editing.visit_now(watch.pk, urls=["http://news.example/p0"])
    elif why == "new":
        rows.update(state="new")
    elif why == "said":
        rows.update(said_at=F("last_visit"))
    else:
        monkeypatch.setattr(picker, "ROUND_PAGES", 1)
    assert site.round(watch) == ["p0"]


def test_new_pages_that_wait_for_the_budget_are_visited_together(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(budget=1200)))
    site.links["start"] = [f"p{n}" for n in range(400)]
    watch = site.begin()
    site.all_rounds(watch)
    rounds = Task.objects.count()
    for _ in range(60):
        ahead(seconds=60)
        site.round(watch)
    # One in five minutes, and the rounds of the first five minutes, in which new pages do not wait.
    assert Task.objects.count() - rounds <= 12 + 4
    assert 198 <= len(site.visited) <= 201  # at once, and in one hour


# -- many found pages -----------------------------------------------------------------------------


@pytest.fixture
def settled(site: Site) -> Watch:
    """A watch with known pages; later finds are new."""
    site.links["start"] = ["a", "b"]
    watch = site.begin()
    site.all_rounds(watch)
    watch.refresh_from_db()
    assert watch.settled_at is not None
    return watch


def events() -> list[Any]:
    rows = Event.objects.filter(kind="pages_found").order_by("pk")
    return [*rows.values_list("detail", flat=True)]


@BOTH
def test_many_found_pages_are_written_in_batches(
    site: Site, settled: Watch, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "BATCH", 10)
    sizes: list[int] = []
    add = found.Finder._add

    def measured(self: Any, pages: Any) -> None:
        sizes.append(len(pages))
        add(self, pages)

    monkeypatch.setattr(found.Finder, "_add", measured)
    site.links["a"] = [f"a{n}" for n in range(32)] + ["b"]
    site.links["b"] = [f"a{n}" for n in range(40)]
    ahead(days=1)
    site.visit(site.work(settled))
    assert WatchedPage.objects.count() == 42
    assert max(sizes) <= 10
    told = [url for detail in events() for url in detail["urls"]]
    assert len(told) == len({*told}) == 40
    assert sum(detail["count"] for detail in events()) == 40


@BOTH
def test_an_interrupted_commit_finds_each_page_once(
    site: Site, settled: Watch, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "BATCH", 10)
    site.links["a"] = [f"a{n}" for n in range(35)]
    ahead(days=1)
    task = site.work(settled)
    add = found.Finder._add
    sizes: list[int] = []

    def failing(self: Any, pages: Any) -> None:
        add(self, pages)
        sizes.append(len(pages))
        if len(sizes) == 3:
            raise OperationalError("the server is away")

    monkeypatch.setattr(found.Finder, "_add", failing)
    first = [site._outcome(task, one) for one in rounds_of(task)]
    with pytest.raises(LedgerAway):
        DjangoLedger().commit(first)
    # Two batches are written, the visit is not.
    assert WatchedPage.objects.count() == 2 + sum(sizes[:2]) < 2 + sum(sizes) < 2 + 35
    assert not Page.objects.filter(task=task, url__endswith="/a").exists()
    site.visit(task)  # another worker makes it again
    assert WatchedPage.objects.count() == 2 + 35
    assert sum(detail["count"] for detail in events()) == 35
    monkeypatch.setattr(found.Finder, "_add", add)
    DjangoLedger().commit(first)  # the first one comes back
    assert WatchedPage.objects.count() == 2 + 35
    assert sum(detail["count"] for detail in events()) == 35


def test_what_a_lost_run_has_found_does_not_count(
    site: Site, settled: Watch, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "BATCH", 10)
    ahead(days=1)
    task = site.work(settled)
    site.visit(task)
    site.links["a"] = [f"a{n}" for n in range(35)]
    DjangoLedger().commit([site._outcome(task, one) for one in rounds_of(task)])
    assert WatchedPage.objects.count() == 2


@BOTH
def test_known_pages_are_heard_of_in_batches(
    site: Site, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "BATCH", 10)
    site.use(like({"parse": Revisit(by="lastmod"), "start": Revisit(every="1h")}))
    site.links["start"] = [f"p{n}" for n in range(35)]
    site.lastmod = dict.fromkeys(site.links["start"], 1e9)
    watch = site.begin()
    site.all_rounds(watch)
    site.lastmod = dict.fromkeys(site.links["start"], 1.1e9)
    ahead(hours=2)
    site.round(watch)
    assert WatchedPage.objects.filter(said_at__isnull=False).count() == 35
