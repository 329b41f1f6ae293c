"""Whole nodes on the wrong Redis, and nodes that die."""

from __future__ import annotations

import signal
from collections.abc import Callable
from io import StringIO
from typing import Any

import psutil
import pytest
from django.core.management import call_command
from redis import Redis

from crawlservice.models import Event, Generation, Page, Task
from crawlservice.monitoring import lives
from crawlservice.monitoring.nodes import read
from crawlservice.tasks.submit import submit
from tests.conftest import NewDatabase, Running, django_on
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb, wait_for

pytestmark = [
    pytest.mark.process,
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
]


def kill(node: Running) -> None:
    """Kills it with all its children, at once."""
    family = psutil.Process(node.process.pid).children(recursive=True)
    node.process.send_signal(signal.SIGKILL)
    node.process.wait()
    psutil.wait_procs(family, timeout=10)


def test_a_staging_node_on_the_redis_of_production_fetches_nothing(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    redis_url: str,
    new_database: NewDatabase,
    web: OddWeb,
) -> None:
    production = start_manage("runcrawler", "--node", "production", "--workers", 1)
    wait_for(lambda: "odd" in look.frontier.spiders.all())
    assert production.stop() == 0
    with redis_at(redis_url):
        task = submit("odd", {"url": web.url})
    staging = {**odd_env, "DATABASE_URL": new_database("sqlite")}
    with django_on(staging["DATABASE_URL"]), redis_at(redis_url):
        call_command("store", "new-id", stdout=StringIO())
    node = start_manage("runcrawler", "--node", "staging", "--reload", env=staging)
    assert node.process.wait(LONGEST_WAIT) not in (0, None)
    for words in ("belongs to installation", "CRAWLFRAME_KEY_PREFIX", "store take-over"):
        assert words in node.output
    assert "Traceback" not in node.output
    with django_on(staging["DATABASE_URL"]):
        assert not Page.objects.exists()
        assert not Task.objects.exists()
        assert not Generation.objects.exists()
    counts = look.counts(task.pk)
    assert (counts.na, counts.ready) == (1, 1)
    assert not web.hits


def test_a_killed_node_is_shown_until_it_comes_back_and_a_stopped_one_is_not(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    redis_url: str,
    redis_client: Redis,
) -> None:
    def start(name: str) -> Running:
        node = start_manage("runcrawler", "--node", name, "--workers", 1)
        wait_for(
            lambda: any(one.node == name and one.spiders for one in look.frontier.leases.nodes())
        )
        return node

    def shown() -> dict[str, Any]:
        with redis_at(redis_url):
            return {node.node: node.condition for node in read()}

    alpha, _beta, gamma = start("alpha"), start("beta"), start("gamma")
    kill(alpha)
    assert gamma.stop() == 0
    wait_for(lambda: [life.node for life in lives.offline()] == ["alpha"])
    wait_for(lambda: shown() == {"alpha": "offline", "beta": "idle"})
    redis_client.flushall()
    wait_for(lambda: "beta" in shown() and shown()["beta"] == "idle")
    assert shown()["alpha"] == "offline"
    start("alpha")
    wait_for(lambda: shown() == {"alpha": "idle", "beta": "idle"})
    told = [*Event.objects.order_by("pk").values_list("kind", "node")]
    assert told == [("node_offline", "alpha"), ("node_back", "alpha")]
