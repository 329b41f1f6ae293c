"""Fixtures of the frontier's tests: real Redis, every script sent twice, counters checked after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from crawlframe.frontier.client import scripts
from tests.frontier.bench import Bench


@pytest.fixture
def make_bench(redis_client: Redis) -> Iterator[Callable[..., Bench]]:
    """Makes benches (``partitions``, ``store``, ``kind``); afterwards counters must
    equal queues."""
    made: list[Bench] = []

    def make(**options: Any) -> Bench:
        made.append(Bench(redis_client, **options))
        return made[-1]

    yield make
    for bench in made:
        assert bench.frontier.audit() == []


@pytest.fixture
def early_bench(monkeypatch: pytest.MonkeyPatch, make_bench: Callable[..., Bench]) -> Bench:
    """A bench whose claims are not 50 ms ahead of delays, but hours."""
    source = scripts.source

    def hasty(verb: str) -> str:
        text = source(verb)
        assert text.count("local AHEAD = 50\n") == 1
        return text.replace("local AHEAD = 50\n", "local AHEAD = 36000000\n")

    monkeypatch.setattr(scripts, "source", hasty)
    return make_bench()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()
