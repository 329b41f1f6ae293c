"""Watches whose visits no running code can take: other pages continue, the wait is shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from crawlframe.frontier import Completion
from crawlframe.revisit import Revisit
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Task, Watch, WatchedPage
from crawlservice.watches import parked
from tests.crawlservice.watches.conftest import Site
from tests.crawlservice.watches.test_rounds import like, page

Ahead = Callable[..., None]
SEQUENCE = itertools.count(1)  # of claims
WHY = "spider 'news' has no method 'old'"


@pytest.fixture
def watch(site: Site) -> Watch:
    site.use(like(Revisit(every="1d"), settings={"delay": 0, "concurrency": 8}))
    site.links["start"] = ["a", "b", "c"]
    watch = site.begin()
    site.all_rounds(watch)
    Watch.objects.filter(pk=watch.pk).update(start_at=F("start_at") + timedelta(days=90))
    WatchedPage.objects.exclude(pk=page("a").pk).update(callback="old")
    return Watch.objects.get(pk=watch.pk)


def run(site: Site, task: Any) -> list[str]:
    """Runs a round on nodes whose code lacks the callback ``old``; returns the visited paths."""
    done = []
    while requests := site.frontier.claim(1, next(SEQUENCE), 10).requests:
        for one in requests:
            row = WatchedPage.objects.get(rid=one.rid.hex())
            if row.callback == "old":
                site.frontier.park(1, [one.given_back(WHY)])
                continue
            admission = next(a for a in seeds(task) if a.rid == one.rid)
            outcome = site._outcome(task, admission)
            recorded = DjangoLedger().commit([outcome])[one.rid]
            site.frontier.complete(
                [Completion(one.rid, task.pk, one.host, False, recorded.follow_ups)]
            )
            done.append(row.url.rsplit("/", 1)[1])
    return done


def seeds(task: Any) -> Any:
    from crawlframe.request.request import unpack_admissions

    return unpack_admissions(Task.objects.get(pk=task.pk).seeds)


def later(task: Any) -> None:
    Task.objects.filter(pk=task.pk).update(created_at=F("created_at") - timedelta(hours=1))


def test_other_pages_of_the_host_go_on(site: Site, watch: Watch, ahead: Ahead) -> None:
    for _ in range(6):  # more than may be under way
        ahead(days=1, minutes=1)
        task = site.work(watch)
        assert task is not None
        assert run(site, task) == ["a"]
        later(task)
    assert page("a").visits == 7
    assert WatchedPage.objects.filter(callback="old").exclude(rid=None).count() == 2


def test_rounds_that_wait_for_code_do_not_hold_up_others_at_once(
    site: Site, watch: Watch, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.watches.rounds.ROUNDS", 1)
    ahead(days=1)
    WatchedPage.objects.filter(pk=page("a").pk).update(next_at=F("next_at") + timedelta(hours=1))
    assert run(site, site.work(watch)) == []
    ahead(hours=1)
    assert run(site, site.work(watch)) == ["a"]


def test_what_waits_is_shown_with_what_to_do(site: Site, watch: Watch, ahead: Ahead) -> None:
    ahead(days=1)
    task = site.work(watch)
    run(site, task)
    site.work(watch)
    watch.refresh_from_db()
    assert watch.problem.startswith(f"2 visits wait for code: {WHY}. Other pages continue. ")
    assert f"cancel {task.pk}" in watch.problem
    # Code that has the callback takes them back.
    WatchedPage.objects.update(callback="parse")
    site.frontier.unpark(task.pk)
    assert sorted(run(site, task)) == ["b", "c"]
    site.work(watch)
    watch.refresh_from_db()
    assert watch.problem == ""


def test_no_more_pages_of_a_missing_callback_are_visited(
    site: Site, watch: Watch, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked, "MAX_PARKED", 1)
    WatchedPage.objects.filter(pk=page("c").pk).update(next_at=F("next_at") + timedelta(days=1))
    ahead(days=1)
    task = site.work(watch)
    assert run(site, task) == ["a"]
    ahead(days=1)
    second = site.work(watch)
    assert run(site, second) == ["a"]
    assert page("c").rid is None
    # One page that does not fit its callback is not enough for that.
    monkeypatch.setattr(parked, "MAX_PARKED", 50)
    third = site.work(watch)
    assert third is None or run(site, third) == []
    ahead(minutes=6)
    third = third or site.work(watch)
    assert third is not None
    assert page("c").rid is not None
