"""Redis is reachable but sick: it refuses commands, is slow, or its connections lead nowhere. Nodes
wait and continue by themselves, and the crawl ends with the exact set."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from redis import Redis, RedisError, ResponseError

from crawlframe.frontier.client.connection import TIMEOUT
from crawlservice.models import Era, Task
from tests.crawlservice.conftest import redis_at
from tests.faults.proxy import Proxy
from tests.process.conftest import Crawl, Look, OddWeb, wait_for
from tests.servers import RedisServer, free_port

pytestmark = pytest.mark.process

Ill = Callable[[RedisServer], AbstractContextManager[None]]

PAGES, SOME = 400, 20
IN_FLIGHT = 8  # requests at most
LEASE = 3  # seconds


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    """The results here are the same on both databases."""
    return new_database("sqlite")


def client_of(server: RedisServer) -> Redis:
    return Redis.from_url(server.url, socket_timeout=None)


# -- faults of Redis while the block lasts --------------------------------------------------------


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    """Full, for longer than a lease."""
    with client_of(server) as client:
        client.config_set("maxmemory", 1)
        yield
        time.sleep(LEASE)
        client.config_set("maxmemory", 0)


@contextmanager
def unable_to_save(server: RedisServer) -> Iterator[None]:
    """There is a directory in the place of its snapshot."""
    place = server.directory / "dump.rdb"
    (place / "taken").mkdir(parents=True)
    with client_of(server) as client:

        def save(outcome: str) -> None:
            client.bgsave()
            wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == outcome)

        client.config_set("save", "3600 1")
        save("err")
        yield
        shutil.rmtree(place)
        save("ok")


@contextmanager
def read_only(server: RedisServer) -> Iterator[None]:
    """A replica without a primary."""
    with client_of(server) as client:
        client.replicaof("127.0.0.1", free_port())
        yield
        client.replicaof("NO", "ONE")


@contextmanager
def busy(server: RedisServer) -> Iterator[None]:
    """A script that does not end."""

    def ask() -> None:
        with client_of(server) as other, suppress(ResponseError):
            other.eval("while true do end", 0)

    with client_of(server) as client:
        client.config_set("lua-time-limit", 100)  # milliseconds
        asking = threading.Thread(target=ask)
        asking.start()
        yield
        client.script_kill()
        asking.join()


@contextmanager
def loading(server: RedisServer) -> Iterator[None]:
    """It was killed, and takes longer than a lease to load its data."""
    with client_of(server) as client:

        def settled() -> bool:
            with suppress(RedisError):
                look = client.info("persistence")
                return not look["loading"] and not look["aof_rewrite_in_progress"]
            return False

        client.mset({f"filler:{number}": "" for number in range(500 + 1000 * LEASE)})
        client.bgrewriteaof()
        wait_for(settled)
        server.kill()
        # A millisecond for each key, and clients are heard in between.
        server.options += ("--key-load-delay", "1000")
        server.options += ("--loading-process-events-interval-bytes", "1024")
        server.launch()
        yield
        wait_for(settled)


@contextmanager
def silent(server: RedisServer) -> Iterator[None]:
    """It answers no client for longer than clients wait."""
    with client_of(server) as client:
        client.client_pause(round(1000 * (TIMEOUT + 0.5)))
        yield
        client.ping()  # answered when it is over


@contextmanager
def slow(server: RedisServer) -> Iterator[None]:
    """Commands take a while, and the scripts are no longer loaded."""
    with client_of(server) as client:
        client.script_flush()
        client.client_pause(700)
        yield
        client.script_flush()


# -- and the crawl --------------------------------------------------------------------------------


ILLS: list[tuple[Ill, str, str]] = [
    (full, "OOM", "is recorded in the database"),
    (unable_to_save, "MISCONF", "Nothing was submitted"),
    (read_only, "READONLY", "is recorded in the database"),
    (busy, "BUSY", "Nothing was submitted"),
    (slow, "NOSCRIPT", ""),
    (silent, "", ""),
    (loading, "LOADING", "Nothing was submitted"),  # the last: it stays slow at that
]


def test_a_sick_redis_changes_nothing(
    redis_server: Callable[..., RedisServer],
    crawl: Callable[..., Crawl],
    web: OddWeb,
) -> None:
    """One illness after the other, in one crawl; with each, a task of one page is submitted."""
    server = redis_server("--aof-use-rdb-preamble", "yes")
    running = crawl(server.url, PAGES)
    tasks = 1
    for ill, answer, told in ILLS:
        print(ill.__name__)
        running.advance(running.look.counts(running.pk).nf + SOME)
        with ill(server):
            fetched = web.hits.total()
            problem = submission(server.url, f"{web.url}late")
            assert told in problem
            assert bool(problem) == bool(told)
            if told:
                assert web.hits.total() <= fetched + IN_FLIGHT
        check_recovery(running, time.monotonic())
        if answer:
            with client_of(server) as client:
                # One of them was the submission's.
                assert client.info("errorstats")[f"errorstat_{answer}"]["count"] > 1
        tasks += not problem or "is recorded" in problem
    assert running.look.task(running.pk).state in Task.ACTIVE
    web.latency = 0.0
    wait_for(lambda: Task.objects.filter(state="finished").count() == tasks)
    assert Task.objects.count() == tasks
    late = web.hits.pop("/late")
    assert late == tasks - 1
    check_end(running, web)


def test_an_address_that_leads_to_another_primary_is_followed(
    redis_server: Callable[..., RedisServer],
    crawl: Callable[..., Crawl],
    web: OddWeb,
    tmp_path: Path,
) -> None:
    """The previous primary continues as its replica, with all its connections."""
    ports = free_port(), free_port()
    one = redis_server("--port", str(ports[0]), "--repl-diskless-sync-delay", "0")
    other = redis_server("--port", str(ports[1]), "--replicaof", f"127.0.0.1 {ports[0]}")
    front = tmp_path / "front.sock"
    with Proxy(front, one.socket) as proxy, client_of(one) as client:
        wait_for(lambda: client.info("replication").get("slave0", {}).get("state") == "online")
        running = crawl(f"unix://{front}?db=0", 6 * SOME)
        running.advance(SOME)
        proxy.lead_to(other.socket)
        client.execute_command("FAILOVER")
        wait_for(lambda: client.info("replication")["role"] == "slave")
        healed, running.look = time.monotonic(), Look(other.url)
        check_recovery(running, healed)
        check_end(running, web)
    assert Era.objects.count() == 1


def submission(redis_url: str, page: str) -> str:
    """Submits a task with the command; returns the problem that it reports, or ""."""
    with redis_at(redis_url):
        try:
            call_command("submit", "odd", "-a", f"url={page}")
        except CommandError as error:
            return str(error)
    return ""


def check_recovery(running: Crawl, since: float) -> None:
    """``since``: the end of the fault."""
    running.advance(running.look.counts(running.pk).nf)
    print(f"went on after {time.monotonic() - since:.2f} s")


def check_end(running: Crawl, web: OddWeb) -> None:
    check_task(running, web)
    running.check_end()


def check_task(running: Crawl, web: OddWeb) -> None:
    running.check_task()
    assert max(web.hits.values()) == 1, "a result that waits is not fetched again"
    for node in running.nodes:
        assert "died" not in node.output
        assert "declared dead" not in node.output
