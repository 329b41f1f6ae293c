"""Watches: each due page is visited once, within the budget; each change is noticed once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.test import override_settings
from django.utils import timezone

from crawlframe import Spider
from crawlframe.errors import ArgumentError
from crawlframe.revisit import Revisit
from crawlservice.ledger.audit import audit
from crawlservice.models import (
    Event,
    Task,
    Watch,
    WatchDay,
    WatchedHost,
    WatchedItem,
    WatchedPage,
    Webhook,
)
from crawlservice.steward.pruning import prune_rounds
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import WrongState
from crawlservice.watches import editing, rounds
from crawlservice.webhooks.deliveries import body, create_deliveries
from tests.crawlservice.chores import at_once
from tests.crawlservice.watches.conftest import News, Site

BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows

Ahead = Callable[..., None]


def page(path: str) -> WatchedPage:
    return WatchedPage.objects.get(url=f"http://news.example/{path}")


def events(kind: str) -> list[Any]:
    return [*Event.objects.filter(kind=kind).order_by("pk").values_list("detail", flat=True)]


def like(policy: Any, **more: Any) -> type[Spider]:
    return type("News", (News,), {"revisit": policy, **more})


@pytest.fixture
def watch(site: Site) -> Watch:
    """A watch with three pages, all visited once."""
    site.links = {"start": ["a", "b"], "a": ["a", "c"]}
    watch = site.begin()
    assert site.all_rounds(watch) == ["a", "b", "c"]
    watch.refresh_from_db()
    assert watch.settled_at is not None
    return watch


@BOTH
def test_pages_are_found_once_and_visited_when_they_are_due(
    site: Site, watch: Watch, ahead: Ahead
) -> None:
    assert site.all_rounds(watch) == []
    ahead(hours=23)
    assert site.all_rounds(watch) == []
    ahead(hours=2)
    assert site.all_rounds(watch) == ["a", "b", "c"]
    assert WatchedPage.objects.filter(state="live", visits=2, changes=0).count() == 3
    assert not WatchedPage.objects.exclude(rid=None).exists()
    tasks = Task.objects.filter(watch=watch)
    assert [problem for task in tasks for problem in audit(task)] == []
    assert {task.outcome for task in tasks} == {"finished"}
    assert events("pages_found") == []


def test_what_changes_is_noticed(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    site.pages["a"] = "new"
    site.all_rounds(watch)
    ahead(days=1)
    site.all_rounds(watch)
    assert (page("a").visits, page("a").changes) == (3, 1)
    changed, visited = page("a").last_change, page("a").last_visit
    assert changed is not None
    assert visited is not None
    assert changed < visited
    assert page("a").shape > 0 > page("b").shape - 1e-9
    assert page("b").time > page("a").time


def test_other_code_is_no_change_of_the_page(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    site.version, site.pages["a"] = "v2", "as the new code sees it"
    site.all_rounds(watch)
    assert page("a").changes == 0
    ahead(days=1)
    site.pages["a"] = "changed"
    site.all_rounds(watch)
    assert page("a").changes == 1


@BOTH
def test_new_pages_are_an_event(site: Site, watch: Watch, ahead: Ahead) -> None:
    Webhook.objects.create(name="all", url="http://hook.example/")
    ahead(days=1)
    site.links["b"] = ["d", "e"]
    site.links["c"] = ["d"]
    site.all_rounds(watch)
    told = [url for detail in events("pages_found") for url in detail["urls"]]
    assert sorted(told) == ["http://news.example/d", "http://news.example/e"]
    assert page("d").visits == 1
    create_deliveries()  # the ends of rounds are not delivered
    kinds = {*Event.objects.filter(delivery__isnull=False).values_list("kind", flat=True)}
    assert kinds == {"pages_found"}
    (first, *_) = Event.objects.filter(kind="pages_found")
    assert orjson.loads(body(first))["pages"] == first.detail


@BOTH
def test_gone_is_what_is_missing_twice(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.items["b"] = [b'{"id":1}']
    ahead(days=1)
    site.all_rounds(watch)
    ahead(days=1)
    site.pages["b"] = 404
    site.all_rounds(watch)
    assert (page("b").state, page("b").misses) == ("live", 1)
    ahead(days=1)
    site.all_rounds(watch)
    site.work(watch)
    assert page("b").state == "gone"
    assert [detail["url"] for detail in events("page_gone")] == ["http://news.example/b"]
    assert WatchedItem.objects.get().gone_at is not None
    ahead(days=5)
    assert "b" not in site.all_rounds(watch)
    ahead(days=5)  # it is still linked to
    site.pages["b"] = "back"
    site.all_rounds(watch)
    assert page("b").state == "live"
    assert len(events("page_gone")) == 1


def test_one_that_was_missing_once_is_there(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    site.pages["b"] = 410
    site.all_rounds(watch)
    ahead(days=1)
    site.pages["b"] = ""
    site.all_rounds(watch)
    assert (page("b").state, page("b").misses) == ("live", 0)
    assert events("page_gone") == []


@pytest.mark.parametrize("errors", [False, True])
def test_errors_end_unless_the_spider_says_otherwise(
    site: Site, watch: Watch, ahead: Ahead, errors: bool
) -> None:
    site.use(like(Revisit(every="1d", errors=errors)))
    site.pages["a"] = 500
    ahead(days=1)
    site.all_rounds(watch)
    site.work(watch)
    assert (page("a").state, page("a").reason) == ("failed", "http_500")
    assert (page("a").next_at is not None) == errors
    ahead(days=1)
    site.pages["a"] = ""
    assert ("a" in site.all_rounds(watch)) == errors
    assert page("a").state == ("live" if errors else "failed")
    if not errors:
        assert editing.visit_now(watch.pk, urls=["http://news.example/a"]) == 1
        assert site.all_rounds(watch) == ["a"]
        assert page("a").state == "live"


@BOTH
def test_items_have_a_life(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.items["a"] = [b'{"id":1,"price":5}', b'{"id":2,"price":7}']
    ahead(days=1)
    site.all_rounds(watch)
    first = WatchedItem.objects.get(data__id=1)
    ahead(days=1)
    site.items["a"] = [b'{"id":1,"price":6}']
    site.all_rounds(watch)
    one, two = WatchedItem.objects.order_by("pk")
    one, two = sorted((one, two), key=lambda item: item.data["id"])
    assert (one.pk, one.data["price"], one.first_seen) == (first.pk, 6, first.first_seen)
    assert one.last_seen > first.last_seen
    assert one.gone_at is None
    assert two.gone_at is not None
    ahead(days=1)
    site.items["a"] = [b'{"id":2,"price":7}']
    site.all_rounds(watch)
    assert [*WatchedItem.objects.filter(gone_at=None).values_list("data__id", flat=True)] == [2]


def test_what_is_not_modified_stays_as_it_is(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.items["a"] = [b'{"id":1}']
    ahead(days=1)
    site.all_rounds(watch)
    before = WatchedItem.objects.get()
    ahead(days=1)
    site.unmodified = {"a"}
    site.all_rounds(watch)
    after = WatchedItem.objects.get()
    assert (after.gone_at, after.last_seen > before.last_seen) == (None, True)
    assert (page("a").visits, page("a").changes) == (3, 0)
    assert page("a").time > 0


def test_a_sitemap_makes_pages_due(site: Site, ahead: Ahead) -> None:
    site.use(like({"parse": Revisit(by="lastmod"), "start": Revisit(every="1h")}))
    site.links, site.lastmod = {"start": ["a", "b"]}, {"a": 1e9, "b": 1e9}
    watch = site.begin()
    assert site.all_rounds(watch) == ["a", "b"]
    ahead(days=2)
    assert site.all_rounds(watch) == []  # start found nothing new
    site.lastmod["b"] = 1.1e9
    ahead(hours=2)
    site.round(watch)
    assert site.all_rounds(watch) == ["b"]
    assert page("b").said_at is None
    trust = WatchedHost.objects.get(host="news.example")
    assert (trust.said, trust.wrong) == (1, 1)  # it had not changed


# -- the budget -----------------------------------------------------------------------------------


def test_the_budget_is_kept(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(budget=48)))
    site.links["start"] = [f"p{n}" for n in range(60)]
    watch = site.begin()
    for _ in range(2 * 24):
        site.round(watch)
        ahead(hours=1)
    visited = len(site.visited)
    assert 2 * 48 - 4 <= visited <= 2 * 48 + 6
    assert sum(day.visited for day in WatchDay.objects.all()) == visited
    assert max(day.late for day in WatchDay.objects.all()) > 0
    assert WatchedPage.objects.filter(visits__gt=0).count() == 60  # new ones first


@BOTH
def test_the_budget_of_a_host_is_kept(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(budget=100_000, host_budget=24)))
    site.links["start"] = [f"p{n}" for n in range(60)]
    watch = site.begin()
    for _ in range(12):
        site.round(watch)
        ahead(hours=2)
    assert 20 <= len(site.visited) <= 28
    editing.set_budget(watch.pk, host_budget=24_000.0)
    ahead(hours=1)
    assert len(site.all_rounds(watch)) > 30


def test_levels_and_priors_are_learned(site: Site, ahead: Ahead) -> None:
    site.use(like(Revisit(budget=120)))
    site.links["start"] = [f"p{n}" for n in range(20)]
    watch = site.begin()
    for step in range(60):
        for n in range(5):
            site.pages[f"p{n}"] = str(step)
        site.all_rounds(watch)
        ahead(hours=2)
    often = sum(page(f"p{n}").visits for n in range(5)) / 5
    seldom = sum(page(f"p{n}").visits for n in range(5, 20)) / 15
    assert 2 * seldom < often
    assert page("p0").shape / page("p0").time > 0
    assert 300 < len(site.visited) <= 620
    fresh = WatchDay.objects.exclude(fresh=None).last()
    assert fresh is not None
    assert 0 < (fresh.fresh or 0) < 1


def test_visit_now_is_beyond_the_budget(site: Site) -> None:
    site.use(like(Revisit(budget=1)))
    site.links["start"] = ["a", "b"]
    watch = site.begin()
    assert site.all_rounds(watch) == ["a"] or site.visited == ["b"]
    left = "b" if site.visited == ["a"] else "a"
    editing.visit_now(watch.pk, pages=[page(left).pk])
    assert site.all_rounds(watch) == [left]


# -- steering -------------------------------------------------------------------------------------


@BOTH
def test_pause_resume_and_end(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    task = site.work(watch)
    editing.pause(watch.pk)
    task.refresh_from_db()
    assert task.state == "paused"
    assert site.work(watch) is None
    with pytest.raises(WrongState):
        editing.pause(watch.pk)
    editing.resume(watch.pk)
    site.visit(task)
    ahead(days=1)
    task = site.work(watch)
    editing.end(watch.pk)
    task.refresh_from_db()
    assert task.state == "cancelling"
    assert site.work(watch) is None
    with pytest.raises(WrongState):
        editing.visit_now(watch.pk)


def test_what_a_cancelled_round_did_not_visit_is_visited_later(
    site: Site, watch: Watch, ahead: Ahead
) -> None:
    ahead(days=1)
    task = site.work(watch)
    Task.objects.filter(pk=task.pk).update(state="cancelled", outcome="cancelled")
    assert site.work(watch) is None
    assert not WatchedPage.objects.exclude(rid=None).exists()
    ahead(minutes=2)
    assert site.all_rounds(watch) == ["a", "b", "c"]


def test_a_round_is_not_retried(site: Site, watch: Watch) -> None:
    with pytest.raises(WrongState, match="visits its pages again"):
        retry(Task.objects.filter(watch=watch).latest("pk").pk)


def test_a_spider_without_revisit_is_not_watched(site: Site, watch: Watch) -> None:
    site.use(like(None))
    with pytest.raises(ArgumentError, match="revisit = Revisit"):
        site.begin()
    assert site.work(watch) is None
    watch.refresh_from_db()
    assert "no revisit any more" in watch.problem
    site.use(News)
    site.work(watch)


def test_pages_follow_the_callbacks_of_the_code(site: Site, watch: Watch, ahead: Ahead) -> None:
    site.use(like({"parse": Revisit(every="2h"), "start": Revisit(every="52w")}))
    site.work(watch)
    assert {*WatchedPage.objects.values_list("group", flat=True)} == {"parse"}
    ahead(days=1)
    site.all_rounds(watch)
    ahead(hours=3)
    assert site.all_rounds(watch) == ["a", "b", "c"]
    site.use(News)
    site.work(watch)
    assert {*WatchedPage.objects.values_list("group", flat=True)} == {"*"}


@BOTH
def test_old_rounds_are_removed(site: Site, watch: Watch, ahead: Ahead) -> None:
    rounds = Task.objects.filter(watch=watch)
    old = rounds.earliest("pk")
    rounds.filter(pk=old.pk).update(finished_at=timezone.now() - timedelta(days=40))
    pages = WatchedPage.objects.count()
    with override_settings(KEEP_ROUNDS=0):
        prune_rounds()
    assert rounds.filter(pk=old.pk).exists()
    with override_settings(KEEP_ROUNDS=30):
        prune_rounds()
    assert not rounds.filter(pk=old.pk).exists()
    assert rounds.exists()
    assert WatchedPage.objects.count() == pages
    ahead(days=1)
    assert site.all_rounds(watch) == ["a", "b", "c"]


@BOTH
def test_two_leaders_make_one_round(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    made = at_once(*[lambda: rounds.work(watch.pk, site.info)] * 2)
    (task,) = [task for task in made if task is not None]
    site.visit(task)
    assert WatchedPage.objects.filter(visits=2).count() == 3


@BOTH
def test_a_second_commit_of_a_visit_changes_nothing(site: Site, watch: Watch, ahead: Ahead) -> None:
    from crawlservice.ledger.store import DjangoLedger

    ahead(days=1)
    site.links["b"] = ["d"]
    task = site.work(watch)
    outcomes = site.visit(task)
    before = [*WatchedPage.objects.order_by("pk").values_list("visits", "next_at")]
    ahead(minutes=1)
    DjangoLedger().commit(outcomes)
    assert [*WatchedPage.objects.order_by("pk").values_list("visits", "next_at")] == before
    assert len(events("pages_found")) == 1


def test_what_start_finds_late_counts_from_its_run(site: Site, watch: Watch) -> None:
    start = Watch.objects.get(pk=watch.pk).start_at
    assert watch.round_at is not None
    assert timedelta(hours=23) < start - watch.created_at < timedelta(hours=25)
