"""The condition that requests wait for a proxy that there is not, with its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from crawlframe.frontier import Frontier, TaskLimits
from crawlframe.frontier.client.records import ANSWERED, FreedSlot, Signal
from crawlframe.proxies.place import pair_of, place_of
from crawlframe.request.request import Admission
from crawlservice.alerts import wording
from crawlservice.alerts.chores import AlertMonitor
from crawlservice.connections import clock
from crawlservice.models import Alert, Host, Installation, Proxy, Task
from crawlservice.proxies import use
from crawlservice.proxies.entry import read_lines, store
from crawlservice.proxies.pool import missing, publish

HOST = "shop.example"
CHOICE = "pool:country=DE,eu"


@pytest.fixture
def waiting(service: Frontier) -> Frontier:
    """A request waits at the host, and no claim finds a proxy."""
    place = place_of(HOST, CHOICE)
    service.open_task(1, TaskLimits(), [Admission(b"r" * 16, 0, place, 0, b"record")])
    look_for(service)
    return service


def look_for(frontier: Frontier) -> list[Any]:
    keys = frontier.store.keys[0]
    frontier.store.redis.zadd(keys("HOSTS"), {place_of(HOST, CHOICE): 0})
    frontier.leases.renew(5, 15)
    return [*frontier.claim(5, 1, 5, []).requests]


def add(*lines: str, **fields: Any) -> None:
    store(read_lines(lines, tags=["eu"], country="DE")[0])
    Proxy.objects.update(**{"state": Proxy.State.WORKING, **fields})


def causes(frontier: Frontier) -> list[str]:
    return [one.cause for one in missing(frontier)]


def test_an_empty_pool(waiting: Frontier) -> None:
    (found,) = missing(waiting)
    assert (found.host, found.choice, found.cause, found.proxies) == (HOST, CHOICE, "empty", 0)
    assert [*missing(waiting, "other.example")] == []


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"tags": "us"}, "unfit"),
        ({"country": "FR"}, "unfit"),
        ({"enabled": False}, "disabled"),
        ({"state": Proxy.State.NEW}, "unchecked"),
        ({"state": Proxy.State.FAILED}, "failed"),
    ],
)
def test_why_none_can_be_used(waiting: Frontier, fields: dict[str, Any], cause: str) -> None:
    add("a.example:1", "b.example:1", **fields)
    assert causes(waiting) == [cause]


def test_one_that_is_out_has_failed_before_the_database_says_so(waiting: Frontier) -> None:
    add("a.example:1")
    assert causes(waiting) == []
    waiting.store.redis.sadd(waiting.store.keys[0]("OUT"), Proxy.objects.get().pk)
    assert causes(waiting) == ["failed"]


def test_all_rest_at_the_host(waiting: Frontier) -> None:
    add("a.example:1", "b.example:1")
    until = clock.now().timestamp() + 90
    rest(waiting, until, "blocked", "blocked")
    (found,) = missing(waiting)
    assert (found.cause, round(found.until - until), found.at_host) == ("blocked", 0, True)
    rest(waiting, until, "blocked", "asked")
    assert causes(waiting) == ["resting"]
    rest(waiting, until - 100, "blocked")  # one of them may be used again
    assert causes(waiting) == []


def rest(frontier: Frontier, until: float, *why: str) -> None:
    for pk, reason in zip(Proxy.objects.values_list("pk", flat=True), why, strict=False):
        pair = frontier.store.keys[0]("HOST", pair_of(HOST, pk))
        frontier.store.redis.hset(pair, mapping={"r": round(1000 * until), "why": reason})


@pytest.fixture
def look(waiting: Frontier) -> Callable[[], Alert | None]:
    Installation.objects.get_or_create(pk=1)
    monitor = AlertMonitor(waiting)

    def once() -> Alert | None:
        keys = waiting.store.keys[0]
        waits = waiting.store.redis.zrange(keys("LACKING"), 0, -1)
        if waits:  # for a minute
            at = 1000 * (clock.now().timestamp() - 60)
            waiting.store.redis.zadd(keys("LACKING"), dict.fromkeys(waits, at))
        monitor.look(clock.now(), {})
        return Alert.objects.filter(kind="proxy_missing", resolved_at=None).first()

    return once


def test_the_alert_names_the_cause_and_ends_by_itself(
    waiting: Frontier, look: Callable[[], Alert | None]
) -> None:
    alert = look()
    assert alert is not None
    assert "the pool is empty" in wording.sentence(alert)
    assert wording.place(alert) == "/admin/crawlservice/proxy/"
    add("a.example:1")
    Proxy.objects.update(tags="us")
    same = look()
    assert same is not None
    assert (same.pk, f"fits {CHOICE}" in wording.sentence(same)) == (alert.pk, True)
    Proxy.objects.update(tags="eu")
    assert look() is None
    publish(waiting)
    assert len(look_for(waiting)) == 1
    assert waiting.proxies.lacking(10) == []


def test_a_host_that_blocks_them_all_has_an_alert_of_its_own(
    waiting: Frontier, look: Callable[[], Alert | None]
) -> None:
    host = Host.objects.create(name=HOST)
    add("a.example:1")
    rest(waiting, clock.now().timestamp() + 90, "blocked")
    alert = look()
    assert alert is not None
    assert alert.host == HOST
    assert f"{HOST} blocks all proxies" in wording.sentence(alert)
    assert wording.place(alert) == f"/admin/crawlservice/host/{host.pk}/change/"


def test_what_has_just_begun_to_wait_is_no_alert(waiting: Frontier) -> None:
    Installation.objects.get_or_create(pk=1)
    AlertMonitor(waiting).look(clock.now(), {})
    assert not Alert.objects.exists()


# -- pages -----------------------------------------------------------------------------------------


def test_a_task_says_that_it_waits(
    waiting: Frontier, as_role: Callable[[str], Client], capsys: pytest.CaptureFixture[str]
) -> None:
    running = {"spider": "shop", "seeds": b"", "na": 1}
    task, other = (Task.objects.create(pk=pk, **running) for pk in (1, 2))
    why = "Requests wait for a proxy, and the pool is empty."
    client = as_role("viewer")
    for one, says in ((task, True), (other, False)):
        shown = client.get(f"/admin/crawlservice/task/{one.pk}/change/").content.decode()
        assert (why in shown) is says
        call_command("task", "show", str(one.pk))
        assert (why in " ".join(capsys.readouterr().out.split())) is says


def test_the_page_of_a_host_shows_its_proxies(
    waiting: Frontier, as_role: Callable[[str], Client]
) -> None:
    host = Host.objects.create(name=HOST, last_at=clock.now())
    add("a.example:1")
    (proxy,) = Proxy.objects.all()
    rest(waiting, clock.now().timestamp() + 90, "blocked")
    used = waiting.store.keys[0]("USED", HOST)
    at = round(1000 * clock.now().timestamp())
    waiting.store.redis.hset(used, mapping={str(proxy.pk): f"{at} 321 7", "t pool:eu": 2})
    page = f"/admin/crawlservice/host/{host.pk}/change/"
    shown = as_role("operator").get(page).content.decode()
    for text in (
        "http://a.example:1", f"/proxy/{proxy.pk}/change/", "blocked until", "321 ms", "tier 2 is",
        f"{HOST} blocks all proxies",
    ):  # fmt: skip
        assert text in shown, text
    assert "a.example:1" not in as_role("viewer").get(page).content.decode()
    back = as_role("administrator").get(f"/admin/crawlservice/proxy/{proxy.pk}/change/")
    assert f"/host/{host.pk}/change/" in back.content.decode()
    assert "7 errors" in back.content.decode()


def test_the_hosts_of_a_proxy_are_found_without_the_others(
    waiting: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use, "MAX_ROWS", 2)
    at = round(1000 * clock.now().timestamp())
    for n in range(4):
        Host.objects.create(name=f"h{n}.example", last_at=clock.now())
        key = waiting.store.keys[0]("USED", f"h{n}.example")
        mine = {} if n == 1 else {"7": f"{at + n} -1 {n}"}
        waiting.store.redis.hset(key, mapping={"8": f"{at} 5 0", "t pool": 1, **mine})
    redis = waiting.store.redis
    redis.config_resetstat()
    found = use.hosts_of(7)
    assert [(host.name, one.errors) for host, one, _ in found] == [
        ("h3.example", 3),
        ("h2.example", 2),
    ]
    assert "cmdstat_hgetall" not in redis.info("commandstats")


def test_a_fetch_leaves_what_the_page_shows(waiting: Frontier) -> None:
    add("a.example:1")
    publish(waiting)
    (claimed,) = look_for(waiting)
    over = FreedSlot(claimed.rid, claimed.host, claimed.claim, Signal(ANSWERED, 100))
    waiting.claim(5, 2, 1, [over])
    pair = waiting.proxies.used_at(HOST).pairs[claimed.proxy]
    assert (pair.latency_ms, pair.errors) == (100, 0)
    assert abs(pair.used_at - clock.now().timestamp()) < 60
