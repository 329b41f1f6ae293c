"""Pace: the adaptive rate at simulated servers, in simulated time. The real script decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis import Redis

from crawlframe.frontier.client.records import NEVER_SENT, SENT, FreedSlot, Signal, TaskLimits
from crawlframe.frontier.client.scripts import LUA
from tests.frontier.bench import Bench

SIMULATION = Path(__file__).with_name("pace_simulation.lua")
SEEDS = (11, 222, 3333)
Pieces = list[tuple[int, int]]  # seconds that are judged


class Entry(NamedTuple):
    """A request in the server's log. Milliseconds."""

    arrived: int
    replied: int
    status: int


class Server:
    """The requests that a simulated server saw."""

    def __init__(self, redis: Any, kind: str, seconds: int, seed: int, *more: int) -> None:
        parts = "local function define_pace()", (LUA / "_pace.lua").read_text(), "end"
        source = "\n".join([*parts, SIMULATION.read_text()])
        flat = redis.eval(source, 0, kind, seconds, seed, *more)
        self.log = sorted(map(Entry, flat[::3], flat[1::3], flat[2::3]))

    def within(self, pieces: Pieces) -> list[Entry]:
        return [
            one
            for one in self.log
            if any(1000 * start <= one.arrived < 1000 * end for start, end in pieces)
        ]

    def refused(self, pieces: Pieces) -> float:
        """Share of the requests."""
        judged = self.within(pieces)
        return sum(one.status != 200 for one in judged) / len(judged)

    def reached(self, pieces: Pieces, allowed: Callable[[int], float]) -> float:
        """Share of the rate that the server allows; ``allowed`` is its rate in a second."""
        answered = sum(one.status == 200 for one in self.within(pieces))
        return answered / sum(allowed(t) for start, end in pieces for t in range(start, end))

    def latency(self, pieces: Pieces) -> int:
        """The 90th percentile, ms."""
        times = sorted(one.replied - one.arrived for one in self.within(pieces))
        return times[int(0.9 * len(times))]


@pytest.fixture(params=SEEDS)
def at(redis_client: Redis, request: pytest.FixtureRequest) -> Callable[..., Server]:
    def serve(kind: str, seconds: int, *more: int) -> Server:
        return Server(redis_client, kind, seconds, request.param, *more)

    return serve


def test_a_token_bucket(at: Callable[..., Server]) -> None:
    server, settled = at("bucket", 180), [(30, 180)]
    assert server.refused(settled) <= 0.02
    assert server.reached(settled, lambda t: 5) >= 0.85


def test_a_token_bucket_that_names_seven_seconds(at: Callable[..., Server]) -> None:
    server, settled = at("bucket", 180, 7000), [(30, 180)]
    assert server.refused(settled) <= 0.02
    assert server.reached(settled, lambda t: 5) >= 0.85
    refusals = [one for one in server.log if one.status == 429]
    for refusal in refusals:  # in flight when it was sent, or after the named instant
        early = [
            one for one in server.log
            if refusal.replied + 30 < one.arrived < refusal.replied + 7000
        ]  # fmt: skip
        assert early == []


def test_latency_that_grows_with_load(at: Callable[..., Server]) -> None:
    server, settled = at("pool", 180), [(30, 180)]
    assert server.reached(settled, lambda t: 20) >= 0.85
    assert server.latency(settled) <= 200  # twice the unloaded one


def test_an_outage_of_a_minute(at: Callable[..., Server]) -> None:
    server, settled = at("outage", 180), [(30, 60), (90, 120), (150, 180)]
    assert server.refused(settled) <= 0.02
    assert server.reached(settled, lambda t: 0 if 60 <= t < 120 else 20) >= 0.85


def test_a_limit_that_changes(at: Callable[..., Server]) -> None:
    server, settled = at("changing", 420), [(30, 120), (150, 300), (330, 420)]
    assert server.refused(settled) <= 0.02
    assert server.reached(settled, lambda t: 2 if 120 <= t < 300 else 20) >= 0.85


def test_latencies_that_vary_as_real_ones_do_are_no_congestion(at: Callable[..., Server]) -> None:
    """Eight at a time, 230 ms each: 35 a second at the most."""
    server = at("varied", 120)
    assert len(server.within([(60, 120)])) / 60 > 25


def test_a_rate_that_workers_limit_does_not_wind_up(at: Callable[..., Server]) -> None:
    """A worker that fetches one page at a time fetches 15 a second from a bucket of 20; the
    rate is never found to be higher, so no burst follows when there are more workers."""
    server = at("outage", 60, -1, 1)
    assert server.refused([(0, 60)]) == 0


LIMITS = TaskLimits(delay=60_000, concurrency=5)


def test_the_next_request_of_the_host_may_go_at_once(bench: Bench) -> None:
    bench.frontier.open_task(1, LIMITS, bench.requests(5))
    for _ in range(3):
        (one,) = bench.claim_unsent()
        assert bench.claim_unsent() == []
        bench.sequences[1] += 1
        told = FreedSlot(one.rid, one.host, one.claim, Signal(SENT, NEVER_SENT))
        bench.frontier.claim(1, bench.sequences[1], 0, [told])
    (last,) = bench.claim_unsent()
    bench.sequences[1] += 1
    told = FreedSlot(last.rid, last.host, last.claim, Signal(SENT, 0.0))
    bench.frontier.claim(1, bench.sequences[1], 0, [told])
    assert bench.claim_unsent() == []  # that one was sent
