"""Permits of a worker: fetches of a host keep the delay from when they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from redis.exceptions import ConnectionError as Away

from crawlframe.errors import BadRedirect
from crawlframe.fetch.journey.context import FetchContext, FetchLimits, SendTime
from crawlframe.fetch.journey.journey import Journey
from crawlframe.node.worker.fetch.permits import HostFetch, StoredPermits
from crawlframe.request.request import Request
from tests.frontier.bench import NODE, Bench
from tests.frontier.test_signals import next_in

T = TypeVar("T")
HOST = "a.example"
CRAWL: Any = SimpleNamespace(spec=SimpleNamespace(task=1))


class AtOnce:
    """Stores whose jobs are done by the caller."""

    def __init__(self, bench: Bench) -> None:
        self.frontier = bench.frontier

    def call(self, job: Callable[[], None]) -> None:
        job()

    async def ask(self, job: Callable[[], T]) -> T:
        return job()


def permits_of(bench: Bench) -> StoredPermits:
    stores: Any = AtOnce(bench)
    return StoredPermits(stores, NODE)


def test_a_fetch_that_is_late_puts_off_the_next(bench: Bench) -> None:
    bench.open(*bench.requests(1), delay=400)
    permits, send_time = permits_of(bench), SendTime()

    async def fetch() -> None:
        async with permits.take(CRAWL, HostFetch(HOST, 10.0), send_time):
            await send_time.wait()
            await asyncio.sleep(0.2)
            now = bench.now()
            send_time.sent()
            assert next_in(bench, now) >= 400

    asyncio.run(fetch())


@pytest.mark.parametrize("sent", [True, False])
def test_a_report_that_is_lost_is_made_by_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    bench.open(*bench.requests(1), delay=400)
    permits, send_time, now = permits_of(bench), SendTime(), 0

    def lost(*given: Any) -> None:
        raise Away

    monkeypatch.setattr(bench.frontier.permits, "note_sent", lost)

    async def fetch() -> None:
        nonlocal now
        async with permits.take(CRAWL, HostFetch(HOST, 10.0), send_time):
            await asyncio.sleep(0.2)
            now = bench.now()
            if sent:
                send_time.sent()

    asyncio.run(fetch())
    assert next_in(bench, now) >= 400 if sent else len(bench.claim()) == 1


def test_a_page_waits_for_its_host_before_it_goes_on(bench: Bench) -> None:
    """Also a page of a callback, and one that leads elsewhere by itself."""
    bench.open(*bench.requests(2), delay=100)
    began = bench.now()
    (held,) = bench.claim()
    permits, send_time, times = permits_of(bench), SendTime(), []
    asked: list[str] = []

    def turn_at(url: str) -> Any:
        asked.append(url)
        return permits.take(CRAWL, HostFetch(HOST, 10.0, held.rid), send_time)

    async def go_on() -> None:
        send_time.turn_at = turn_at
        context = FetchContext(send_time=send_time, allowed=lambda host: host == HOST)
        journey = Journey(Request(f"http://{HOST}/"), FetchLimits(), {}, None, context)
        for way in (journey.permit, journey.lead):
            await way(f"http://{HOST}/2")
            times.append(bench.now() - began)
            with pytest.raises(BadRedirect):
                await way("http://b.example/")

    asyncio.run(go_on())
    assert times[0] >= 99
    assert times[1] >= 199
    assert asked == [f"http://{HOST}/2"] * 2
    assert next_in(bench, began) >= 299
