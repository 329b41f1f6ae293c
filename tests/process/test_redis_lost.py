"""Redis comes back with less data than before: nodes notice, fill it again from the database, and
the crawl ends with the exact set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from crawlservice.models import Era
from tests.process.conftest import Crawl, each_on, wait_for
from tests.servers import RedisServer, free_port

pytestmark = pytest.mark.process

PAGES = 300
EVERYTHING = 1 << 40


@pytest.mark.parametrize(
    ("tails", "database"),
    [
        *each_on("sqlite", (300, 3_000)),
        *each_on("sqlite", (30_000, 60)),
        *each_on("postgres", (EVERYTHING, 1_000)),
    ],
    indirect=["database"],
)
def test_a_tail_that_is_lost_changes_nothing(
    redis_server: Callable[..., RedisServer],
    crawl: Callable[..., Crawl],
    tails: tuple[int, ...],
) -> None:
    server = redis_server()
    running = crawl(server.url, PAGES, nodes=2)
    for number, tail in enumerate(tails, 1):
        running.advance(number * PAGES // 4)
        server.kill()
        server.lose(tail)
        server.start()
    running.check_end()
    # A short tail may be of claims alone that brought nothing.
    assert Era.objects.count() > 1 or max(tails) < 30_000


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_replica_that_was_behind_takes_over(
    redis_server: Callable[..., RedisServer], crawl: Callable[..., Crawl]
) -> None:
    port = free_port()
    primary = redis_server("--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = redis_server("--replicaof", f"127.0.0.1 {port}")
    with Redis.from_url(replica.url) as client:
        wait_for(lambda: client.info("replication")["master_link_status"] == "up")
        running = crawl(primary.url, PAGES, nodes=2)
        running.advance(PAGES // 4)
        client.replicaof("NO", "ONE")  # it hears no more from here on
    running.advance(PAGES // 2)
    primary.kill()
    replica.socket.rename(primary.socket)
    running.check_end()
    assert Era.objects.count() == 2
