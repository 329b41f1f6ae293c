"""Redis comes back with less than it knew: nodes notice, fill it again from the database, and the
crawl ends with the exact set."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable

import pytest

from crawlservice.audit import audit
from crawlservice.models import Era, Task
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb
from tests.servers import RedisServer

pytestmark = pytest.mark.process

PAGES = 400
EVERYTHING = 1 << 40


def cut(server: RedisServer, tail: int) -> None:
    """As a power cut does: the last bytes of the append-only file never reached the disk."""
    server.kill()
    (log,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    size = log.stat().st_size
    if tail >= size:
        shutil.rmtree(log.parent)
    else:
        with log.open("r+b") as file:
            file.truncate(size - tail)
    server.start()


@pytest.mark.parametrize("tails", [(300, 3_000), (30_000, 60), (EVERYTHING, 1_000)])
def test_a_tail_that_is_lost_changes_nothing(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    redis_server: Callable[..., RedisServer],
    orm: str,
    manage: Callable[..., subprocess.CompletedProcess[str]],
    web: OddWeb,
    tails: tuple[int, ...],
) -> None:
    server = redis_server()
    odd_env["REDIS_URL"] = server.url
    look = Look(server.url)
    web.latency = 0.02
    nodes = [
        start_manage("runcrawler", "--node", name, "--workers", 1, "--concurrency", 8)
        for name in ("one", "two")
    ]
    while "odd" not in look.frontier.spiders():
        time.sleep(0.05)
    assert manage("submit", "odd", "-a", f"url={web.url}", "-a", f"many={PAGES}").returncode == 0
    for number, tail in enumerate(tails, 1):
        reached = number * PAGES // 4
        _wait(lambda: look.counts(1).nf > reached)  # noqa: B023
        cut(server, tail)
    _wait(lambda: look.task(1).state not in Task.ACTIVE)
    assert look.frontier.audit() == []
    task = look.task(1)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", PAGES + 2, PAGES + 2, 0)
    assert len(look.pages(1)) == PAGES + 2
    assert len(look.items(1)) == PAGES + 1
    assert look.finishes(1) == 1
    assert audit(task) == []
    # A short tail may be of claims alone that brought nothing.
    assert Era.objects.count() > 1 or max(tails) < 30_000
    for node in nodes:
        assert node.stop() == 0
    assert look.frontier.leases.nodes() == []


def _wait(ready: Callable[[], bool]) -> None:
    """Counters and queues may disagree for an instant: a cut in the middle of a script."""
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
