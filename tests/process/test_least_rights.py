"""A crawl as the Redis user that the documentation describes: its rights are sufficient, and no
more than necessary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from redis import Redis
from redis.exceptions import NoPermissionError

from crawlservice.connections.redis_checks import rights
from examples.demo_site import DemoServer
from tests.conftest import CHECKOUT, Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look, Submit

pytestmark = pytest.mark.process


@pytest.fixture
def limited(redis_client: Redis, redis_url: str) -> Iterator[str]:
    """The URL of the server for a user with exactly the documented rights."""
    words = rights("cf").split()
    redis_client.execute_command("ACL SETUSER", "crawlframe", "reset", "on", ">pw", *words)
    redis_client.script_flush()
    scheme, _, place = redis_url.partition("://")
    yield f"{scheme}://crawlframe:pw@{place}"
    redis_client.execute_command("ACL DELUSER", "crawlframe")


def test_the_rights_are_documented() -> None:
    text = (CHECKOUT / "docs" / "reference" / "operating.md").read_text()
    assert f"ACL SETUSER crawlframe on >PASSWORD {rights('cf')}" in " ".join(text.split())


def test_a_crawl_needs_no_more(
    limited: str,
    manage_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
) -> None:
    manage_env["REDIS_URL"] = limited
    node = start_manage("runcrawler", "--node", "n1", "--workers", 1)
    with redis_at(limited), DemoServer(listings=60, error_rate=0.02, latency=300) as demo:
        pk = submit("listings", site=demo.url)
        for words in ("task pause {}", "task resume {}", "task list", "task show {}", "node list"):
            call_command(*words.format(pk).split(), stdout=StringIO())
        with DemoServer(listings=60, latency=500) as slow:
            cancelled = submit("listings", site=slow.url)
            call_command("task", "cancel", cancelled, stdout=StringIO())
            look.wait(cancelled)
        task = look.wait(pk)
        assert task.state == "finished"
        assert len(look.items(pk)) == len(list(demo.site.expected_items()))
        for verb in ("audit", "reconcile"):
            call_command("store", verb, stdout=StringIO())
    assert node.stop() == 0
    assert "forbids" not in node.output
    assert "NOPERM" not in node.output


@pytest.mark.parametrize(
    "command",
    [
        "FLUSHALL", "KEYS *", "CONFIG GET requirepass", "GET other", "SET other 1", "SHUTDOWN",
        "ACL LIST", "FUNCTION FLUSH", "SCRIPT FLUSH", "REPLICAOF NO ONE",
    ],
)  # fmt: skip
def test_other_commands_are_not_permitted(limited: str, command: str) -> None:
    with Redis.from_url(limited) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split())
