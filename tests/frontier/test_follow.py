"""follow: which request fetches the target of a redirect."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crawlframe.frontier.reservations import FINISHED, LEFT, Target
from crawlframe.request.request import make_rid
from tests.frontier.bench import Bench

LONG = 60_000


def target(bench: Bench, by: str, name: str, lasts: int = LONG, left: str = "") -> Target:
    rid, reached = (make_rid(1, one.encode()) for one in (by, name))
    before = make_rid(1, left.encode()) if left else b""
    return Target(1, rid, reached, f"http://{name}.example/", lasts, before)


def follow(bench: Bench, *args: Any, **more: Any) -> int:
    [answer] = bench.frontier.reservations.follow([target(bench, *args, **more)])
    return int(answer)


@pytest.fixture
def opened(bench: Bench) -> Bench:
    bench.open(*(bench.request(name, f"{name}.example") for name in ("a", "b")))
    return bench


def test_what_the_task_has_admitted_is_not_fetched(opened: Bench) -> None:
    assert follow(opened, "a", "b") == -1
    assert follow(opened, "a", "t") == 0


def test_one_of_two_redirects_to_a_page_is_followed(opened: Bench) -> None:
    assert follow(opened, "a", "t") == 0
    time.sleep(0.02)
    assert follow(opened, "b", "t") >= 20
    assert follow(opened, "a", "t") == 0  # another try of the same request
    assert follow(opened, "a", "t", FINISHED) == 0
    assert follow(opened, "b", "t") == -1
    opened.complete(opened.claim()[0], opened.request("t", "t.example"))
    assert opened.names(opened.claim()) == []
    assert opened.frontier.audit() == []


def test_after_a_failure_another_one_goes_there(opened: Bench) -> None:
    follow(opened, "a", "t")
    follow(opened, "b", "t", LEFT)  # a request without it cannot give it up
    assert follow(opened, "b", "t") > 0
    follow(opened, "a", "t", LEFT)
    assert follow(opened, "b", "t") == 0


def test_a_death_holds_it_up_for_a_time(opened: Bench) -> None:
    follow(opened, "a", "t", 20)
    time.sleep(0.1)
    assert follow(opened, "b", "t") == 0


def test_what_only_redirects_again_is_free(opened: Bench) -> None:
    follow(opened, "a", "t")
    assert follow(opened, "a", "u", left="t") == 0
    assert follow(opened, "b", "t") == 0


def test_a_link_to_it_waits_and_is_not_lost(opened: Bench) -> None:
    held = {opened.name_of[one.rid]: one for one in opened.claim()}
    follow(opened, "a", "t", 300)
    opened.complete(held["b"], opened.request("t", "t.example"))
    assert opened.places() == (0, 1, 1, 0)  # ready, in progress, delayed, parked
    assert follow(opened, "a", "t", FINISHED) == 1
    time.sleep(0.4)
    assert opened.names(opened.claim()) == ["t"]  # as if the request had died before it ended t
    assert opened.frontier.audit() == []


def test_partitions(make_bench: Any) -> None:
    bench = make_bench(partitions=3)
    names = [f"n{number}" for number in range(20)]
    bench.open(*(bench.request(name, f"{name}.example") for name in names[::2]))
    asked = [target(bench, "a", name) for name in names]
    assert bench.frontier.reservations.follow(asked) == [-1, 0] * 10
    bench.frontier.reservations.follow([one._replace(lasts=FINISHED) for one in asked[1::2]])
    assert bench.frontier.reservations.follow(asked) == [-1] * 20


def test_of_a_task_that_has_ended(bench: Bench) -> None:
    assert follow(bench, "a", "t") == follow(bench, "a", "t", FINISHED) == 0


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("b", "a")])
def test_of_two_that_redirect_to_each_other_one_goes_on(
    opened: Bench, one: str, other: str
) -> None:
    """As over a cookie, which each of them sets."""
    held = {opened.name_of[request.rid]: request for request in opened.claim()}
    assert follow(opened, one, other) == -1
    opened.complete(held[one])
    assert follow(opened, other, one) == 0
    assert follow(opened, other, one, FINISHED) == 0
    opened.complete(held[other])
    assert opened.frontier.audit() == []
