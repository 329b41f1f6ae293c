"""Statistics of hosts: added exactly, by many workers at a time, without holding up anything."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from django.db import transaction
from django.db.models import F

from crawlframe.run.ledger import HostStats, LedgerAway
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Host
from tests.crawlservice.chores import at_once

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite", "postgres")]


def add(**hosts: HostStats) -> None:
    DjangoLedger().activity.add_host_stats(
        {f"{name}.example": stats for name, stats in hosts.items()}
    )


def test_numbers_are_added_and_the_last_ones_replaced() -> None:
    add(a=HostStats(2, 1, 500, 80, {200: 1, 404: 1}, 404, "http_404"), b=HostStats(1))
    host = Host.objects.get(name="a.example")
    assert (host.pages, host.errors, host.bytes, host.latency_ms) == (2, 1, 500, 40)
    assert (host.statuses, host.last_status) == ({"200": 1, "404": 1}, 404)
    assert host.last_at is not None
    add(a=HostStats(3, 0, 10, 140, {200: 1}, 200))
    later = Host.objects.get(name="a.example")
    assert (later.pages, later.errors, later.bytes) == (5, 1, 510)
    assert later.statuses == {"200": 2, "404": 1}
    assert later.latency_ms == pytest.approx(50), "a tenth of the way to 140"
    assert (later.last_status, later.last_reason) == (200, "http_404")
    assert later.last_at is not None
    assert (later.first_at, later.last_at >= host.last_at) == (host.first_at, True)
    assert Host.objects.get(name="b.example").statuses == {}


def test_a_host_that_does_not_answer_keeps_its_latency() -> None:
    add(a=HostStats(1, 0, 5, 80, {200: 1}, 200))
    add(a=HostStats(1, 1, statuses={0: 1}, last_reason="timeout"))
    host = Host.objects.get()
    assert (host.latency_ms, host.last_status, host.last_reason) == (80, None, "timeout")


def test_what_operators_ordered_stays() -> None:
    Host.objects.create(name="a.example", delay=2.5, paused=True, note="slow")
    add(a=HostStats(1))
    host = Host.objects.get()
    assert (host.delay, host.paused, host.note, host.pages) == (2.5, True, "slow", 1)


def test_numbers_of_rows_are_not_used_up() -> None:
    for _ in range(5):
        add(a=HostStats(1))
    add(b=HostStats(1))
    first, second = Host.objects.order_by("pk").values_list("pk", flat=True)
    assert second == first + 1


def test_odd_names_and_reasons() -> None:
    long = "x" * 300 + ".example"
    stats = {
        long: HostStats(1),
        "xn--mnchen-3ya.example:8080": HostStats(1, 1),
        "[::1]": HostStats(1),
    }
    stats["a.example"] = HostStats(1, 1, last_reason="o\0dd " * 50)
    DjangoLedger().activity.add_host_stats(stats)
    names = {"xn--mnchen-3ya.example:8080", "[::1]", "a.example"}
    assert {*Host.objects.values_list("name", flat=True)} == names
    assert len(Host.objects.get(name="a.example").last_reason) == 60
    DjangoLedger().activity.add_host_stats({})


def test_two_workers_add_the_same_hosts_in_any_order() -> None:
    names = [f"h{n}.example" for n in range(40)]

    def work(mine: list[str]) -> None:
        for _ in range(15):
            DjangoLedger().activity.add_host_stats(
                {name: HostStats(1, 0, 1, 5, {200: 1}, 200) for name in mine}
            )

    at_once(*(partial(work, some) for some in (names, names[::-1])))
    assert {*Host.objects.values_list("pages", flat=True)} == {30}
    assert all(host.statuses == {"200": 30} for host in Host.objects.all())


@pytest.mark.parametrize(
    "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_a_locked_row_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from crawlservice.ledger import host_stats

    monkeypatch.setattr(host_stats, "LOCK_TIMEOUT", "20ms")
    add(a=HostStats(1))
    problems: list[Exception] = []

    def other() -> None:
        ledger = DjangoLedger()
        try:
            ledger.activity.add_host_stats({"a.example": HostStats(1)})
        except LedgerAway as error:
            problems.append(error)
        finally:
            ledger.close()

    with transaction.atomic():
        Host.objects.select_for_update().get()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(problems) == 1
    assert Host.objects.get().pages == 1


def test_the_rate_is_that_of_the_last_minute() -> None:
    host = Host(minute=100, minute_fetches=30, before_fetches=60)
    assert host.rate(6000) == pytest.approx(90 / 60)
    assert host.rate(6030) == pytest.approx(60 / 60)
    assert host.rate(6060) == pytest.approx(30 / 60)
    assert host.rate(6090) == pytest.approx(15 / 60)
    assert host.rate(6120) == 0


def test_fetches_are_counted_by_minute() -> None:
    two = HostStats(2, statuses={200: 1, 0: 1})

    def minutes() -> tuple[int, int]:
        host = Host.objects.get()
        return host.minute_fetches, host.before_fetches

    add(a=two)
    assert minutes() == (2, 0)
    Host.objects.update(minute=F("minute") - 1)
    add(a=two)
    assert minutes() in ((2, 2), (2, 0)), "another minute may have begun just now"
    Host.objects.update(minute=F("minute") - 2)
    add(a=two)
    assert minutes() == (2, 0)
