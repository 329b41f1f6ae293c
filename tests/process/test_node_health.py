"""A node with a problem is shown as abnormal, with the reason; and as normal again afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from django.core.management import call_command

from crawlservice.monitoring import nodes
from crawlservice.monitoring.nodes import Node
from tests.conftest import Running, django_on
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT
from tests.servers import PostgresServer

pytestmark = pytest.mark.process


@pytest.fixture
def node(
    manage_env: dict[str, str],
    start_manage: Callable[..., Running],
    redis_url: str,
) -> Iterator[Callable[[str], Running]]:
    """Starts a node of two workers, whose heartbeats are frequent, on a database."""

    def start(database: str) -> Running:
        manage_env["CRAWLFRAME_LEASE"], manage_env["CRAWLFRAME_BEAT"] = "20", "0.5"
        manage_env["DATABASE_URL"] = database
        running = start_manage("runcrawler", "--node", "alpha", "--workers", 2)
        wait(lambda: any(alpha.condition == nodes.IDLE for alpha in known()))
        return running

    with redis_at(redis_url):
        yield start


def known() -> list[Node]:
    return nodes.read()


def alpha() -> Node:
    (found,) = known()
    return found


def wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not ready():
        assert time.monotonic() < deadline, known()
        time.sleep(0.05)


def test_workers_that_die_again_and_again_are_reported(
    node: Callable[[str], Running], new_database: Callable[[str], str]
) -> None:
    master = node(new_database("sqlite")).process.pid
    for deaths in (1, 2, 3):
        assert alpha().condition == nodes.IDLE
        os.kill(a_worker(master), signal.SIGKILL)
        wait(lambda: alpha().health.deaths == deaths)  # noqa: B023
    assert alpha().condition == nodes.ABNORMAL
    (trouble,) = alpha().troubles
    assert trouble.startswith("3 of its workers died or were killed in the last 10 minutes")


def a_worker(master: int) -> int:
    """The youngest of its processes once there are two workers again: steward and template exist
    before any worker."""
    children = psutil.Process(master).children
    wait(lambda: len(children()) == 4)
    return max(children(), key=lambda one: one.create_time()).pid


def test_a_node_that_stands_still_is_late_and_well_again_when_it_goes_on(
    node: Callable[[str], Running], new_database: Callable[[str], str]
) -> None:
    running = node(new_database("sqlite"))
    running.process.send_signal(signal.SIGSTOP)
    wait(lambda: alpha().late > 0)
    assert alpha().condition == nodes.ABNORMAL
    (trouble,) = alpha().troubles
    assert "No heartbeat for" in trouble
    assert "its lease expires, and other nodes take its requests" in trouble
    running.process.send_signal(signal.SIGCONT)
    wait(lambda: alpha().condition == nodes.IDLE)


@pytest.mark.postgres
def test_an_unreachable_database_is_reported_until_it_is_back(
    node: Callable[[str], Running],
) -> None:
    server = PostgresServer()
    try:
        server.start()
        with django_on(server.url):
            call_command("migrate", verbosity=0)
        node(server.url)
        server.crash()
        wait(lambda: bool(alpha().health.waits))
        assert alpha().condition == nodes.ABNORMAL
        assert alpha().troubles == [f"Its results or chores are waiting: {alpha().health.waits}"]
        assert "onnect" in alpha().health.waits
        server.start()
        wait(lambda: alpha().condition == nodes.IDLE)
    finally:
        server.stop()
