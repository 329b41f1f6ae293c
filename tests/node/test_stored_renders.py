"""Knowledge of a worker about templates, and its updates from other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError

from crawlframe.node.worker.fetch.stored_renders import IDLE_SECONDS, StoredRenders
from crawlframe.render.knowledge import LIFE, STREAK, UNKNOWN, Knowledge
from crawlframe.render.template import URLTemplate

PAGE = URLTemplate("parse", "shop.example/*")
KNOWN = Knowledge(browser=9, streak=STREAK, used=1_000)


class Redis:
    """Stands for the committer, which runs jobs at once, and for the frontier."""

    def __init__(self) -> None:
        self.found = {PAGE: KNOWN}
        self.reads: list[str] = []
        self.away = False
        self.renders = self

    def of(self, spider: str) -> dict[URLTemplate, Knowledge]:
        self.reads.append(spider)
        if self.away:
            raise ConnectionError("Redis is away")
        return dict(self.found)

    def call(self, job: Callable[[], None]) -> None:
        job()


class Worker:
    def __init__(self) -> None:
        self.redis, self.now = Redis(), 1.0
        here: Any = cast(Any, self.redis)
        self.stored = StoredRenders(here, here, clock=lambda: self.now)

    def find(self, template: URLTemplate = PAGE) -> Knowledge:
        return asyncio.run(self.stored.find("shop", template))


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_a_spider_is_read_once_and_then_followed(worker: Worker) -> None:
    assert worker.find() == worker.find() == KNOWN
    assert worker.find(URLTemplate("parse", "other.example/*")) == UNKNOWN
    assert worker.redis.reads == ["shop"]
    worker.redis.found[PAGE] = KNOWN._replace(streak=0)
    worker.stored.tick()
    assert worker.find().streak == 0


def test_what_was_forgotten_is_unknown(worker: Worker) -> None:
    worker.find()
    worker.redis.found.clear()
    worker.stored.tick()
    assert worker.find() == UNKNOWN


def test_what_is_not_used_is_let_go(worker: Worker) -> None:
    worker.stored.tick()
    assert worker.redis.reads == []
    worker.find()
    worker.now += IDLE_SECONDS + 1
    worker.stored.tick()
    worker.stored.tick()
    assert worker.redis.reads == ["shop"]
    worker.find()
    assert worker.redis.reads == ["shop", "shop"]


def test_without_redis_it_stays_as_it_was(worker: Worker) -> None:
    worker.find()
    worker.redis.away = True
    worker.stored.tick()
    assert worker.find() == KNOWN
    worker.redis.away = False
    worker.redis.found.clear()
    worker.stored.tick()
    assert worker.find() == UNKNOWN


def test_pages_that_begin_are_counted_until_the_next_read(worker: Worker) -> None:
    worker.find()
    for _ in range(KNOWN.pause):
        assert worker.find().leaves_out_plain()
        worker.stored.begin("shop", PAGE, direct=True)
    assert not worker.find().leaves_out_plain()
    worker.stored.begin("shop", PAGE, direct=False)
    assert worker.find().leaves_out_plain()
    worker.stored.begin("shop", PAGE, direct=True)
    worker.stored.tick()
    assert worker.find() == KNOWN


def test_it_holds_for_a_time(worker: Worker) -> None:
    worker.find()
    worker.now = (KNOWN.used + LIFE + 1) / 1000
    assert worker.find() == UNKNOWN
