"""Redis comes back with less than it knew: nodes notice, fill it again from the database, and the
crawl ends with the exact set."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest
from redis import Redis

from crawlservice.audit import audit
from crawlservice.models import Era, Task
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb
from tests.servers import RedisServer, free_port

pytestmark = pytest.mark.process

PAGES = 400
EVERYTHING = 1 << 40


@pytest.fixture
def crawl(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    orm: str,
    manage: Callable[..., subprocess.CompletedProcess[str]],
    web: OddWeb,
) -> Callable[[RedisServer], Crawl]:
    """Starts two nodes and a task on a Redis of its own."""

    def start(server: RedisServer) -> Crawl:
        odd_env["REDIS_URL"] = server.url
        web.latency = 0.05
        look = Look(server.url)
        nodes = [
            start_manage("runcrawler", "--node", name, "--workers", 1, "--concurrency", 8)
            for name in ("one", "two")
        ]
        _wait(lambda: "odd" in look.frontier.spiders())
        arguments = ["-a", f"url={web.url}", "-a", f"many={PAGES}"]
        assert manage("submit", "odd", *arguments).returncode == 0
        return Crawl(look, nodes)

    return start


class Crawl:
    """Task 1."""

    def __init__(self, look: Look, nodes: list[Running]) -> None:
        self._look = look
        self._nodes = nodes

    def advance(self, pages: int) -> None:
        """Returns when so many have ended, or all."""
        look = self._look
        _wait(lambda: look.counts(1).nf > pages or look.task(1).state not in Task.ACTIVE)

    def check_end(self) -> None:
        """Waits for it."""
        look = self._look
        _wait(lambda: look.task(1).state not in Task.ACTIVE)
        task = look.task(1)
        assert (task.state, task.na, task.nf, task.ne) == ("finished", PAGES + 2, PAGES + 2, 0)
        assert (len(look.pages(1)), len(look.items(1))) == (PAGES + 2, PAGES + 1)
        assert look.finishes(1) == 1
        assert look.frontier.audit() == audit(task) == []
        for node in self._nodes:
            assert node.stop() == 0
        assert look.frontier.leases.nodes() == []


@pytest.mark.parametrize("tails", [(300, 3_000), (30_000, 60), (EVERYTHING, 1_000)])
def test_a_tail_that_is_lost_changes_nothing(
    redis_server: Callable[..., RedisServer],
    crawl: Callable[[RedisServer], Crawl],
    tails: tuple[int, ...],
) -> None:
    server = redis_server()
    running = crawl(server)
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
    redis_server: Callable[..., RedisServer], crawl: Callable[[RedisServer], Crawl]
) -> None:
    port = free_port()
    primary = redis_server("--port", str(port))
    replica = redis_server("--replicaof", f"127.0.0.1 {port}")
    with Redis.from_url(replica.url) as client:
        _wait(lambda: client.info("replication")["master_link_status"] == "up")
        running = crawl(primary)
        running.advance(PAGES // 4)
        client.replicaof("NO", "ONE")  # it hears no more from here on
    running.advance(PAGES // 2)
    primary.kill()
    replica.socket.rename(primary.socket)
    running.check_end()
    assert Era.objects.count() == 2


def _wait(ready: Callable[[], bool]) -> None:
    """Counters and queues may disagree for an instant: a cut in the middle of a script."""
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
