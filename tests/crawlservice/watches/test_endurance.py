"""Watches in the long run: budgets that cannot be spent, hosts that rest, watches that are broken,
and times that are wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from crawlframe.errors import ArgumentError
from crawlframe.request.request import Request
from crawlframe.revisit import Revisit
from crawlframe.revisit.declared import DAY
from crawlframe.revisit.visit import FoundPage, Visit
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Task, Watch, WatchDay, WatchedHost, WatchedPage
from crawlservice.tasks import submit
from crawlservice.watches import editing, rounds, tuning
from crawlservice.watches.found import found_by
from crawlservice.watches.group import groups_of
from tests.crawlservice.watches.conftest import Site
from tests.crawlservice.watches.test_rounds import like, page

Ahead = Callable[..., None]
UNLIMITED = 1e6  # requests per day


def begin(site: Site, pages: int, policy: Any) -> Watch:
    """A watch whose pages have all been visited once."""
    site.use(like(policy))
    site.links["start"] = [f"p{n}" for n in range(pages)]
    watch = site.begin(budget=UNLIMITED)
    site.all_rounds(watch)
    assert WatchedPage.objects.filter(visits=1).count() == pages
    return Watch.objects.get(pk=watch.pk)


def visits_per_day() -> float:
    """The visits per day, as many as are planned."""
    means = WatchedPage.objects.values_list("mean_every", flat=True)
    return sum(DAY / mean for mean in means if mean)


def levels(watch: Watch) -> Any:
    return groups_of(Watch.objects.get(pk=watch.pk).groups)["*"]


# -- budgets --------------------------------------------------------------------------------------


def test_a_budget_too_small_for_a_visit_a_year_of_each_page(site: Site, ahead: Ahead) -> None:
    watch = begin(site, 20, Revisit(budget=0.01))
    editing.set_budget(watch.pk, budget=None)
    for _ in range(12):
        ahead(seconds=tuning.LOOK_SECONDS + 1)
        site.work(watch)
    assert levels(watch).level < 1e20
    assert {*WatchedPage.objects.filter(rid=None).values_list("every", flat=True)} == {365 * DAY}


def test_a_host_whose_budget_is_less_than_that_of_all(site: Site, ahead: Ahead) -> None:
    watch = begin(site, 40, Revisit(budget=5000))
    WatchedPage.objects.filter(url__endswith="1").update(shape=20, time=20 * DAY)
    editing.set_budget(watch.pk, budget=5000, host_budget=24)
    for _ in range(30):
        ahead(seconds=tuning.LOOK_SECONDS + 1)
        site.round(watch)
    assert levels(watch).level > 1e-9
    wanted = visits_per_day()
    assert 18 < wanted < 30  # and not all as often as possible
    assert page("p1").every != pytest.approx(page("p2").every)


def test_hosts_are_limited_as_they_are_and_not_as_the_sample_is(
    site: Site, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SAMPLE", 10)
    watch = begin(site, 80, Revisit(budget=5000))
    editing.set_budget(watch.pk, budget=5000, host_budget=24)
    for _ in range(30):
        ahead(seconds=tuning.LOOK_SECONDS + 1)
        site.round(watch)
    wanted = visits_per_day()
    assert 10 < wanted < 40


def test_what_is_due_keeps_its_turn_when_it_is_planned_anew(site: Site, ahead: Ahead) -> None:
    watch = begin(site, 5, Revisit(budget=1))
    editing.set_budget(watch.pk, budget=None)
    editing.visit_now(watch.pk, urls=["http://news.example/p3"])
    WatchedPage.objects.update(every=60.0)  # so that all are planned anew
    ahead(days=1)
    task = site.work(watch)
    assert task is not None
    assert page("p3").round == task.pk


def test_a_budget_needs_one_that_it_replaces(site: Site) -> None:
    with pytest.raises(ArgumentError, match="has a budget, so there is none to replace"):
        site.begin(budget=50.0)
    watch = site.begin()
    with pytest.raises(ArgumentError, match="has a budget, so there is none to replace"):
        editing.set_budget(watch.pk, host_budget=50.0)
    editing.set_budget(watch.pk, budget=None)


def test_a_round_that_is_refused_costs_no_budget(
    site: Site, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = begin(site, 20, Revisit(budget=48))
    editing.set_budget(watch.pk, budget=None)
    Watch.objects.filter(pk=watch.pk).update(start_at=F("start_at") + timedelta(days=900))
    ahead(days=400)

    def refuse(*args: Any, **options: Any) -> Any:
        raise ArgumentError("no")

    with monkeypatch.context() as patched:
        patched.setattr(submit, "submit", refuse)
        for _ in range(3):
            assert site.work(watch) is None
    assert Watch.objects.get(pk=watch.pk).problem == "no"
    assert len(site.round(watch)) == 6  # the eighth part of a day's


# -- effects of one host or watch on others -------------------------------------------------------


def test_a_host_that_rests_does_not_hold_up_the_others(site: Site, ahead: Ahead) -> None:
    slow = [f"http://slow.example/{n}" for n in range(6)]
    site.links["start"] = ["a", *slow]
    watch = site.begin()
    site.all_rounds(watch)
    for n, url in enumerate(slow):
        WatchedPage.objects.filter(url=url).update(next_at=F("next_at") + timedelta(days=n))
    for _ in range(6):
        ahead(days=1, minutes=1)
        task = site.work(watch)
        assert task is not None
        outcomes = [site._outcome(task, one) for one in rounds_of(task)]
        DjangoLedger().commit([one for one in outcomes if one.host != "slow.example"])
        Task.objects.filter(pk=task.pk).update(created_at=F("created_at") - timedelta(hours=1))
    assert page("a").visits == 7
    assert WatchedPage.objects.filter(host="slow.example").exclude(rid=None).count() == 1


def rounds_of(task: Any) -> Any:
    from crawlframe.request.request import unpack_admissions

    return unpack_admissions(Task.objects.get(pk=task.pk).seeds)


def test_a_watch_that_is_broken_does_not_hold_up_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = site.begin(), site.begin()
    tune = tuning.tune

    def broken(watch: Watch, *args: Any) -> None:
        if watch.pk == bad.pk:
            raise ZeroDivisionError("division by zero")
        tune(watch, *args)

    monkeypatch.setattr(tuning, "tune", broken)
    rounds.tick()
    assert Task.objects.filter(watch=good).exists()
    bad.refresh_from_db()
    assert bad.problem == "it cannot continue: ZeroDivisionError: division by zero"
    monkeypatch.setattr(tuning, "tune", tune)
    rounds.tick()
    bad.refresh_from_db()
    assert bad.problem == ""


@pytest.mark.databases("postgres")  # SQLite has no locks of rows
@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="it has no locks of rows")
def test_the_steward_does_not_wait_for_a_worker(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    locked, done = threading.Event(), threading.Event()

    def find_pages() -> None:
        with transaction.atomic():
            Watch.objects.select_for_update(no_key=True).get(pk=watch.pk)
            locked.set()
            done.wait(20)
        connection.close()

    worker = threading.Thread(target=find_pages)
    worker.start()
    try:
        assert locked.wait(20)
        assert site.work(watch) is None
    finally:
        done.set()
        worker.join()
    assert site.all_rounds(watch) == ["a", "b", "c"]


@pytest.fixture
def watch(site: Site) -> Watch:
    """A watch with three pages that link to each other, all visited once."""
    site.links = {"start": ["a"], "a": ["b", "c"], "b": ["a"], "c": ["a", "b"]}
    watch = site.begin()
    assert site.all_rounds(watch) == ["a", "b", "c"]
    return Watch.objects.get(pk=watch.pk)


def test_the_first_pass_ends_although_something_is_always_due(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(every="1m")))
    site.links = {"start": ["a", "b"]}
    watch = site.begin()
    for _ in range(4):
        site.visit(site.work(watch))
        ahead(minutes=2)
    watch.refresh_from_db()
    assert watch.settled_at is not None


# -- pages ----------------------------------------------------------------------------------------


def test_pages_that_link_to_each_other_do_not_become_deeper(
    site: Site, watch: Watch, ahead: Ahead
) -> None:
    def depths() -> list[int]:
        records = WatchedPage.objects.order_by("pk").values_list("record", flat=True)
        return [Request.decode(bytes(record)).depth for record in records]

    before = [*WatchedPage.objects.order_by("pk").values_list("rank", "record")]
    assert depths() == [0, 1, 1]
    for _ in range(3):
        ahead(days=1)
        site.all_rounds(watch)
    assert depths() == [0, 1, 1]
    after = [*WatchedPage.objects.order_by("pk").values_list("rank", "record")]
    assert [(rank, bytes(record)) for rank, record in after] == [
        (rank, bytes(record)) for rank, record in before
    ]
    site.links["start"] = ["a", "c"]
    ahead(days=1)
    site.all_rounds(watch)
    assert depths() == [0, 1, 0]


def test_errors_do_not_end_while_the_spider_is_away(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.use(like(Revisit(every="1d", errors=True)))
    site.pages["a"] = 500
    ahead(days=1)
    task = site.work(watch)
    site.visit(task)
    assert rounds.work(watch.pk, None, "the spider is disabled") is None
    assert page("a").rid is not None
    site.work(watch)
    assert (page("a").state, page("a").rid) == ("failed", None)
    assert page("a").next_at is not None


def test_what_a_failed_visit_says_of_the_rate_is_nothing(
    site: Site, watch: Watch, ahead: Ahead
) -> None:
    site.use(like(Revisit(every="1d", errors=True)))
    site.pages["a"] = 500
    ahead(days=1)
    site.all_rounds(watch)
    before = page("a").shape, page("a").time
    ahead(days=1)
    site.pages["a"] = "new"  # at some time in two days
    site.all_rounds(watch)
    assert (page("a").changes, page("a").visits) == (1, 3)
    assert (page("a").shape, page("a").time) == before
    ahead(days=1)
    site.all_rounds(watch)
    assert page("a").time > before[1]


def test_who_stays_gone_is_told_of_once(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.pages["c"] = 404
    for _ in range(12):
        ahead(days=1)
        site.all_rounds(watch)
    assert page("c").state == "gone"
    assert page("c").visits > 3  # it is still linked to
    assert Event.objects.filter(kind="page_gone").count() == 1


def test_errors_after_midnight_are_counted(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.pages["a"] = 500
    ahead(days=1)
    site.visit(site.work(watch))
    Watch.objects.filter(pk=watch.pk).update(start_at=F("start_at") + timedelta(days=9))
    ahead(days=1)
    site.work(watch)
    assert sum(day.errors for day in WatchDay.objects.all()) == 1


# -- sitemaps -------------------------------------------------------------------------------------


@pytest.fixture
def listed(site: Site) -> Watch:
    """A watch with pages from a sitemap, visited each hour."""
    both = {"parse": Revisit(by="lastmod", errors=True), "start": Revisit(every="1h")}
    site.use(like(both))
    site.links, site.lastmod = {"start": ["a", "b"]}, {"a": 1e9, "b": 1e9}
    watch = site.begin()
    assert site.all_rounds(watch) == ["a", "b"]
    return watch


def hour(site: Site, watch: Watch, ahead: Ahead) -> list[str]:
    ahead(hours=1, minutes=1)
    return site.all_rounds(watch)


def test_a_time_in_the_future_does_not_hide_later_ones(
    site: Site, listed: Watch, ahead: Ahead
) -> None:
    site.lastmod["a"] = 4e9  # in the year 2096
    assert hour(site, listed, ahead) == ["a"]
    assert hour(site, listed, ahead) == []
    site.lastmod["a"] = 1.1e9
    assert hour(site, listed, ahead) == ["a"]
    assert hour(site, listed, ahead) == []
    site.lastmod["a"] = 1.05e9  # of another sitemap, say: older than the earlier date
    assert hour(site, listed, ahead) == []


def test_what_a_sitemap_said_is_seen_although_a_visit_failed(
    site: Site, listed: Watch, ahead: Ahead
) -> None:
    site.lastmod["b"], site.pages["b"] = 1.1e9, 503
    assert hour(site, listed, ahead) == ["b"]
    site.pages["b"] = "new"
    ahead(days=1)
    assert site.all_rounds(listed) == ["b"]
    assert page("b").changes == 1


def test_a_sitemap_that_begins_to_lie_is_found_out(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(budget=100)))
    site.links, site.lastmod = {"start": ["a"]}, {"a": 1e9}
    watch = site.begin()
    site.all_rounds(watch)
    long = {"said": 1e5, "wrong": 1e3, "due_wrong": 8e4, "expected": 1e5}
    WatchedHost.objects.update(**long)
    for _ in range(10):
        ahead(seconds=tuning.LOOK_SECONDS + 1)
        site.work(watch)
    host = WatchedHost.objects.get()
    assert host.said <= tuning.TRUST_VISITS
    assert host.due_wrong / host.said == pytest.approx(0.8)


# -- start ----------------------------------------------------------------------------------------


def test_a_start_that_failed_or_was_cancelled_runs_again(site: Site, ahead: Ahead) -> None:
    site.pages["start"], site.links["start"] = 500, ["a"]
    watch = site.begin()
    site.visit(site.work(watch))
    ahead(minutes=10)
    assert site.work(watch) is None
    ahead(hours=1)
    task = site.work(watch)
    assert task is not None
    Task.objects.filter(pk=task.pk).update(state="cancelled", outcome="cancelled")
    assert site.work(watch) is None
    ahead(minutes=2)
    site.pages["start"] = ""
    assert site.all_rounds(watch) == ["a"]
    ahead(hours=3)
    assert site.work(watch) is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_page_that_several_lead_to_counts_at_the_least_depth(order: tuple[int, int]) -> None:
    """Whichever of their results was handed over first."""

    def visit(depth: int, lastmod: float | None) -> tuple[Outcome, Visit]:
        request = Request("http://news.example/c")
        request.depth = depth
        page = FoundPage(
            *(b"k" * 16, request.url, "parse", "", request.host, depth, request.encode(), 1.0),
            lastmod,
        )
        return Outcome(b"r" * 16, 1, "h", b"", 0, 0), Visit(1, found=[page])

    visits = [visit(0, None), visit(1, 5.0)]
    [page] = found_by([visits[n] for n in order]).values()
    assert (page.rank, page.lastmod) == (0, 5.0)
