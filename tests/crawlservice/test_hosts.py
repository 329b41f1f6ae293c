"""Orders for hosts and held hosts: the database decides, Redis follows, whatever was away."""

from __future__ import annotations

import json
import math
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from redis import Redis

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.frontier.hosts import FOREVER, HostOrder, HostState
from crawlservice.api.events import Stream
from crawlservice.connections import clock
from crawlservice.connections.lookup import NotFound
from crawlservice.hosts import orders
from crawlservice.hosts.chores import look_after
from crawlservice.hosts.orders import BadHost, BadOrder, Terms, check_name, get_host
from crawlservice.hosts.rules import HostCondition
from crawlservice.hosts.states import HostNow, read
from crawlservice.ledger.recovery import renew
from crawlservice.models import Action, Event, Host, RobotsFile
from crawlservice.steward.steward import Steward
from crawlservice.tasks.submit import RedisNotUpdated
from crawlservice.webhooks.deliveries import body
from tests.crawlservice.conftest import redis_at

both = pytest.mark.databases("sqlite", "postgres")

NAME = "shop.example"
WHO: dict[str, Any] = {"command": True}


def in_force(frontier: Frontier, name: str = NAME) -> HostOrder | None:
    return frontier.hosts.states([name])[name].order


def hold(frontier: Frontier, name: str, why: str, until: float = math.inf) -> None:
    """Holds a host as the scripts do if it blocks, or asks for a long wait."""
    keys, redis = frontier.store.keys[0], frontier.store.redis
    ms = FOREVER if math.isinf(until) else round(1000 * until)
    more = {"p": 1} if why == "blocked" else {}
    redis.hset(keys("HOST", name), mapping={"r": ms, "why": why, "x": 1, **more})
    redis.zadd(keys("HELD_HOSTS"), {name: ms})


def now_of(name: str = NAME) -> HostNow:
    return read(Host.objects.filter(name=name))[0]


def told() -> list[tuple[str, dict[str, Any]]]:
    return [(row.verb, row.detail) for row in Action.objects.order_by("pk")]


# -- orders ----------------------------------------------------------------------------------------


@both
def test_an_order_is_recorded_and_holds_at_once(service: Frontier) -> None:
    user = User.objects.create(username="ada")
    until = timezone.now() + timedelta(hours=1)
    terms = Terms(until, "night")
    who = {"user": user, "address": "192.0.2.1"}
    host = orders.order("Shop.example", who, delay=2.5, concurrency=1, terms=terms)
    assert (found := in_force(service)) is not None
    assert found[:3] == (2.5, 1, False)
    assert found.until == pytest.approx(until.timestamp(), abs=0.01)
    host.refresh_from_db()
    assert (host.name, host.delay, host.concurrency, host.note) == (NAME, 2.5, 1, "night")
    assert (host.ordered_by, host.unsent) == (user, "")
    (entry,) = Action.objects.all()
    assert (entry.verb, entry.user, entry.address) == ("order host", user, "192.0.2.1")
    stamp = until.isoformat(timespec="seconds")
    assert entry.detail == {
        "host": NAME, "delay": 2.5, "concurrency": 1, "until": stamp, "note": "night",
    }  # fmt: skip


def test_a_pause_keeps_what_was_ordered_and_resume_ends_only_the_pause(service: Frontier) -> None:
    orders.order(NAME, WHO, delay=2.0)
    orders.pause(NAME, WHO, Terms(note="maintenance"))
    assert in_force(service) == HostOrder(2.0, None, True, None)
    orders.order(NAME, WHO, concurrency=3)
    assert in_force(service) == HostOrder(None, 3, True, None)
    orders.resume(NAME, WHO)
    assert in_force(service) == HostOrder(None, 3, False, None)
    orders.clear(NAME, WHO)
    assert in_force(service) is None
    host = Host.objects.get()
    assert (host.ordered_at, host.note, host.paused, host.concurrency) == (None, "", False, None)
    verbs = [verb for verb, _ in told()]
    assert verbs == ["order host", "pause host", "order host", "resume host", "clear host"]


def test_resume_ends_a_pause_without_limits_and_the_rest_of_the_host(service: Frontier) -> None:
    orders.pause(NAME, WHO)
    orders.resume(NAME, WHO)
    assert (in_force(service), Host.objects.get().ordered_at) == (None, None)
    hold(service, NAME, "blocked")
    assert now_of().condition is HostCondition.HELD
    orders.resume(NAME, WHO)
    assert now_of().condition is HostCondition.IDLE
    assert service.hosts.held() == {}


def test_forget_robots_closes_the_gate_again(service: Frontier) -> None:
    service.hosts.robots(NAME, time.time() + 3600)
    assert service.hosts.states([NAME])[NAME].robots_until > time.time()
    orders.forget_robots(NAME, WHO)
    assert service.hosts.states([NAME])[NAME].robots_until < time.time()
    assert told() == [("forget robots", {"host": NAME, "command": True})]


def test_forget_robots_forgets_all_files_of_the_host(service: Frontier) -> None:
    for origin in (f"http://{NAME}", f"https://{NAME}", "http://other.example"):
        for file in ("", "/.well-known/tdmrep.json"):
            RobotsFile.objects.create(origin=origin + file)
    orders.forget_robots(NAME, WHO)
    left = RobotsFile.objects.order_by("pk").values_list("origin", flat=True)
    assert [*left] == ["http://other.example", "http://other.example/.well-known/tdmrep.json"]


def test_impossible_orders_are_refused_by_name(service: Frontier) -> None:
    for field, given in (
        ("delay", {}),
        ("delay", {"delay": -1.0}),
        ("delay", {"delay": math.nan}),
        ("delay", {"delay": 86_401.0}),
        ("concurrency", {"concurrency": 0}),
        ("concurrency", {"concurrency": 10_001}),
        ("note", {"delay": 1.0, "terms": Terms(note="x" * 201)}),
        ("until", {"delay": 1.0, "terms": Terms(timezone.now() - timedelta(seconds=1))}),
    ):
        with pytest.raises(BadOrder) as caught:
            orders.order(NAME, WHO, **given)
        assert caught.value.field == field
        assert field in str(caught.value)
        assert not Host.objects.exists()
        assert not Action.objects.exists()


@both
def test_an_order_ends_when_its_time_is_over(service: Frontier) -> None:
    orders.pause(NAME, WHO, Terms(timezone.now() + timedelta(hours=1)))
    look_after(service)
    assert Host.objects.get().paused
    Host.objects.update(order_until=timezone.now() - timedelta(seconds=1))
    look_after(service)
    host = Host.objects.get()
    assert (host.paused, host.ordered_at, host.unsent) == (False, None, "")
    keys = service.store.keys[0]
    assert not service.store.redis.hexists(keys("HOST", NAME), "op")


@both
def test_what_redis_missed_is_told_by_the_steward(service: Frontier, redis_url: str) -> None:
    with redis_at("redis://127.0.0.1:1/0"):
        for decide in (orders.pause, orders.resume, orders.forget_robots):
            with pytest.raises(RedisNotUpdated, match=NAME):
                decide(NAME, WHO)
        with pytest.raises(RedisNotUpdated):
            orders.order("other.example", WHO, delay=3.0)
    assert Host.objects.get(name=NAME).unsent == "order resume robots"
    assert [verb for verb, _ in told()][-1] == "order host", "recorded though Redis was away"
    hold(service, NAME, "blocked")
    look_after(service)
    assert in_force(service, "other.example") == HostOrder(3.0)
    assert service.hosts.held() == {}, "it was resumed"
    assert not Host.objects.exclude(unsent="").exists()


@both
def test_the_latest_decision_is_what_redis_has_in_the_end(
    service: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process tells, another decides."""
    tell, late = service.hosts.order, [True]

    def slow(host: str, order: HostOrder) -> None:
        if late and late.pop():
            orders.order(host, WHO, delay=9.0)
        tell(host, order)

    monkeypatch.setattr(service.hosts, "order", slow)
    orders.order(NAME, WHO, delay=1.0)
    assert in_force(service) == HostOrder(9.0)
    assert Host.objects.get().unsent == ""


@both
def test_a_new_era_has_the_orders_of_the_database(service: Frontier, redis_client: Redis) -> None:
    renew(service)
    orders.order(NAME, WHO, delay=4.0)
    orders.pause("paused.example", WHO)
    redis_client.flushall()
    told_before = len(told())
    turns = Steward(Settings(), service)
    turns.tick()
    assert in_force(service) == HostOrder(4.0)
    assert in_force(service, "paused.example") == HostOrder(paused=True)
    assert len(told()) == told_before


def test_a_new_era_forgets_what_was_cleared(service: Frontier) -> None:
    """An older copy of Redis has an order that was cleared since."""
    renew(service)
    orders.pause(NAME, WHO)
    orders.clear(NAME, WHO)
    service.hosts.order(NAME, HostOrder(paused=True))
    service.hosts.order("unknown.example", HostOrder(delay=5.0))
    service.eras.doubt()
    renew(service)
    assert in_force(service) is None
    assert in_force(service, "unknown.example") is None


# -- held hosts ------------------------------------------------------------------------------------


def events() -> list[tuple[str, str]]:
    return [*Event.objects.order_by("pk").values_list("kind", "host")]


@both
def test_a_held_host_makes_one_event_and_one_when_it_goes_on(service: Frontier) -> None:
    until = time.time() + 7200
    hold(service, NAME, "asked", until)
    for _ in range(3):
        look_after(service)
    assert events() == [("host_held", NAME)]
    event = Event.objects.get()
    assert (event.detail["why"], event.reason[:12]) == ("asked", "it has asked")  # type: ignore[index]
    host = Host.objects.get()
    assert (host.held_why, host.held_since is not None) == ("asked", True)
    assert host.held_until is not None
    assert host.held_until.timestamp() == pytest.approx(until, abs=0.01)
    hold(service, NAME, "blocked")
    look_after(service)
    host = Host.objects.get()
    assert (host.held_why, host.held_until) == ("blocked", None)
    orders.resume(NAME, WHO)
    for _ in range(3):
        look_after(service)
    assert events() == [("host_held", NAME), ("host_resumed", NAME)]
    host = Host.objects.get()
    assert (host.held_why, host.held_since, host.held_until) == ("", None, None)


@both
def test_two_stewards_make_one_event(service: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has read the rows before the first one wrote them."""
    from crawlservice.hosts import chores

    hold(service, NAME, "blocked")
    now, again = clock.now, [True]

    def meanwhile() -> Any:
        if again and again.pop():
            chores.record_held(service)
        return now()

    monkeypatch.setattr(clock, "now", meanwhile)
    chores.record_held(service)
    assert events() == [("host_held", NAME)]


def test_what_an_operator_paused_is_no_news(service: Frontier) -> None:
    orders.pause(NAME, WHO)
    look_after(service)
    assert events() == []
    hold(service, "b.example", "blocked", time.time() + 60)
    look_after(service)
    orders.pause("b.example", WHO)
    look_after(service)
    assert events() == [("host_held", "b.example")], "a pause does not make it go on"


def test_webhooks_and_the_stream_name_the_host(service: Frontier) -> None:
    hold(service, NAME, "blocked")
    look_after(service)
    event = Event.objects.get()
    told = json.loads(body(event))
    assert (told["kind"], told["task"]) == ("host_held", None)
    assert (told["host"]["name"], told["host"]["why"]) == (NAME, "blocked")
    assert told["host"]["link"].endswith(f"/admin/crawlservice/host/?q={NAME}")
    frame = Stream(0, {})._frame(event)
    assert f'"host": "{NAME}"'.encode() in frame
    assert b"event: host_held" in frame


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        (HostState(), "idle"),
        (HostState(in_flight=1), "crawling"),
        (HostState(queued=5, in_flight=1, next_at=100.05), "crawling"),
        (HostState(queued=5, next_at=100.05), "crawling"),
        (HostState(queued=5, in_flight=1, next_at=107.0), "waiting"),
        (HostState(queued=5, next_at=90.0), "waiting"),
        (HostState(queued=5, why="refused", closed_until=130.0), "resting"),
        (HostState(queued=5, why="refused", closed_until=90.0), "waiting"),
        (HostState(why="refused", closed_until=100.0 + 3601), "held"),
        (HostState(why="asked", closed_until=200.0), "held"),
        (HostState(why="blocked", trial=True), "held"),
        (HostState(why="paused", closed_until=math.inf), "paused"),
        (HostState(why="robots", closed_until=160.0), "robots"),
        (HostState(queued=5, why="delay", next_at=160.0), "waiting"),
        (HostState(queued=5, why="a word of a newer node", closed_until=160.0), "waiting"),
    ],
)
def test_the_condition_is_the_first_one_that_is_true(state: HostState, condition: str) -> None:
    assert HostNow(Host(), state, True, 100.0).condition == condition
    assert HostNow(Host(), state, False, 100.0).condition == "unknown"


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("shop.example", NAME),
        (" SHOP.example ", NAME),
        ("shop.example:80", NAME),
        ("shop.example:8080", "shop.example:8080"),
        ("shop.example:443", NAME),
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("127.0.0.1:8111", "127.0.0.1:8111"),
        ("[::1]:8111", "[::1]:8111"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_names_are_taken_as_links_have_them(given: str, name: str) -> None:
    assert check_name(given) == name


@pytest.mark.parametrize(
    "given",
    [
        "", " ", "http://shop.example/", "shop.example/path", "a b.example", "user@shop.example",
        "shop.example:99999", "shop.example?x", "\0", "x" * 300, "#", "[::1", "a\\b",
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused_by_name(given: str) -> None:
    with pytest.raises(BadHost) as caught:
        check_name(given)
    assert repr(given[:300])[:40] in str(caught.value)


def test_a_host_that_is_not_known(service: Frontier) -> None:
    with pytest.raises(NotFound, match=r"nothing\.example"):
        get_host("nothing.example")
