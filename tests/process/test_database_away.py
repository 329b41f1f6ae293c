"""PostgreSQL stops at once and comes back: workers hold their results, and the crawl continues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from django.core.management import call_command
from django.db import connections

from crawlservice.ledger.audit import audit
from crawlservice.models import Task
from crawlservice.tasks.submit import submit
from tests.conftest import Running, django_on
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb
from tests.servers import PostgresServer

pytestmark = [pytest.mark.process, pytest.mark.postgres]

PAGES = 300
STOPS = 3


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_immediate_stops_change_nothing(
    server: PostgresServer,
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    redis_url: str,
    web: OddWeb,
) -> None:
    odd_env["DATABASE_URL"] = server.url
    web.latency = 0.1
    with django_on(server.url), redis_at(redis_url):
        call_command("migrate", verbosity=0)
        look = Look(redis_url)
        nodes = [
            start_manage("runcrawler", "--node", name, "--workers", 1, "--concurrency", 8)
            for name in ("one", "two")
        ]
        wait(lambda: "odd" in look.frontier.spiders.all())
        assert submit("odd", {"url": web.url, "many": PAGES}).pk == 1
        for stop in range(1, STOPS + 1):
            enough = stop * PAGES // (STOPS + 1)
            # Redis forgets a task that has ended, should a slow machine look too late.
            wait(lambda: look.counts(1).nf > enough or not look.frontier.open_tasks())  # noqa: B023
            server.crash()
            time.sleep(0.3 * stop)
            assert look.frontier.audit() == []
            server.start()
        connections.close_all()
        wait(lambda: look.task(1).state not in Task.ACTIVE)
        task = look.task(1)
        assert (task.state, task.na, task.nf, task.ne) == ("finished", PAGES + 2, PAGES + 2, 0)
        assert (len(look.pages(1)), len(look.items(1))) == (PAGES + 2, PAGES + 1)
        assert look.finishes(1) == 1
        assert audit(task) == []
        assert max(web.hits.values()) == 1, "a result that waits is not fetched again"
        for node in nodes:
            assert "died" not in node.output
            assert node.stop() == 0


def wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)
