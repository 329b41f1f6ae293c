"""The frontier over a real Redis Cluster and over Sentinel."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis, RedisError
from redis.exceptions import TimeoutError

from crawlframe.conf import Settings
from crawlframe.embedded.server import server_command
from crawlframe.errors import FrontierError
from crawlframe.frontier import Completion, Frontier, TaskLimits
from crawlframe.request.request import Admission, Request, make_rid
from tests.faults.proxy import Proxy
from tests.servers import RedisServer, free_port

PARTITIONS = 5


def admission(task: int, url: str) -> Admission:
    request = Request(url)
    rid = make_rid(task, request.fingerprint())
    return Admission(rid, request.rank(), request.host, 0, request.encode())


def crawl(frontier: Frontier) -> int:
    """Runs a small crawl through every important verb; returns how many requests it had."""
    frontier.leases.renew(1, 10)
    frontier.open_task(1, TaskLimits(concurrency=100), [admission(1, "http://h0.example/")])
    sequence = done = 0
    while (counts := frontier.counts(1)) is None or counts.nr:
        sequence += 1
        claim = frontier.claim(1, sequence, 20)
        some = claim.requests
        if sequence == 2:
            frontier.release(1, [request.given_back() for request in some])
            continue
        links = [admission(1, f"http://h{n}.example/{n}") for n in range(40)]
        frontier.known([(1, links)])
        frontier.complete([Completion(r.rid, 1, r.host, False, links) for r in some])
        done += len(some)
        assert frontier.audit() == []
    frontier.leases.replay(1)
    frontier.close_tasks([1])
    return done


@pytest.fixture
def port() -> int:
    return free_port()


Cluster = Callable[[int], list[RedisServer]]


@pytest.fixture
def cluster(redis_server: Callable[..., RedisServer], port: int) -> Cluster:
    """Starts a cluster of ``count`` servers; the first has ``port``."""

    def start(size: int) -> list[RedisServer]:
        ports = [port, *(free_port() for _ in range(size - 1))]
        servers = [redis_server("--port", str(p), "--cluster-enabled", "yes") for p in ports]
        for number, server in enumerate(servers):
            with Redis.from_url(server.url) as client:
                slots = range(16384 * number // size, 16384 * (number + 1) // size)
                client.execute_command("CLUSTER", "ADDSLOTS", *slots)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", port)
        for server in servers:
            with Redis.from_url(server.url) as client:
                while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                    time.sleep(0.02)
        return servers

    return start


def test_a_cluster_needs_no_other_code(cluster: Cluster, port: int) -> None:
    cluster(1)
    url = f"redis+cluster://127.0.0.1:{port}"
    frontier = Frontier.connect(url, Settings(partitions=PARTITIONS))
    assert crawl(frontier) == 41
    frontier.store.redis.close()


def test_a_server_of_a_cluster_that_hangs_costs_one_timeout(cluster: Cluster, port: int) -> None:
    """A master that waited for it longer would lose its lease in all partitions."""
    *_, last = cluster(2)
    url = f"redis+cluster://127.0.0.1:{port}?socket_timeout=0.3"
    frontier = Frontier.connect(url, Settings(partitions=PARTITIONS))
    frontier.leases.renew(1, 10)
    assert last.process is not None
    last.process.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(RedisError):
        frontier.leases.renew(1, 10)
    assert time.monotonic() - started < 2
    frontier.store.redis.close()


def test_sentinel_finds_the_master(
    redis_server: Callable[..., RedisServer], port: int, tmp_path: Path
) -> None:
    redis_server("--port", str(port))
    watch = free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {watch}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor crawl 127.0.0.1 {port} 1\n"
    )
    program = server_command(tmp_path, tmp_path / "unused.sock")[0]
    sentinel = subprocess.Popen([program, str(config), "--sentinel"], stdout=subprocess.DEVNULL)
    url = f"redis+sentinel://127.0.0.1:{watch}/crawl"
    try:
        for _ in range(100):
            try:
                frontier = Frontier.connect(url, Settings())
                break
            except FrontierError:
                time.sleep(0.05)
        assert crawl(frontier) == 41
        frontier.store.redis.close()
    finally:
        sentinel.kill()
        sentinel.wait()


def test_a_server_that_falls_silent_while_a_frontier_connects(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*given: object) -> None:
        raise TimeoutError("Timeout reading from socket")

    monkeypatch.setattr(Frontier, "_agree", silent)
    with pytest.raises(FrontierError, match="Timeout"):
        Frontier.connect(redis_url, Settings())


def test_the_number_of_partitions_stays(redis_url: str, redis_client: Redis) -> None:
    Frontier.connect(redis_url, Settings(partitions=2)).store.redis.close()
    with pytest.raises(FrontierError, match="has 2 partitions and CRAWLFRAME_PARTITIONS is 1"):
        Frontier.connect(redis_url, Settings())
    Frontier.connect(redis_url, Settings(partitions=1, key_prefix="other")).store.redis.close()


def test_a_user_who_may_touch_our_keys_alone_can_do_everything(
    redis_url: str, redis_client: Redis
) -> None:
    redis_client.execute_command("ACL SETUSER", "crawlframe", "on", ">x", "+@all", "~cf:*")
    url = redis_url.replace("unix://", "unix://crawlframe:x@")
    frontier = Frontier.connect(url, Settings())
    assert crawl(frontier) == 41
    frontier.store.redis.close()


@pytest.mark.parametrize("login", ["", ":wrong@", "nobody:secret@"])
def test_a_refused_login_is_reported(redis_server: Callable[..., RedisServer], login: str) -> None:
    server = redis_server()
    with Redis.from_url(server.url) as client:
        client.config_set("requirepass", "secret")
    with pytest.raises(FrontierError, match=r"rejects the login: .* Correct user and password"):
        Frontier.connect(server.url.replace("unix://", f"unix://{login}"), Settings())


@pytest.mark.parametrize("serves_the_rest", ["yes", "no"])
def test_a_cluster_that_lacks_slots_is_refused(
    redis_server: Callable[..., RedisServer], port: int, serves_the_rest: str
) -> None:
    whole = {"yes": "no", "no": "yes"}[serves_the_rest]
    options = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", whole)
    with Redis.from_url(redis_server("--port", str(port), *options).url) as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16000))
    with pytest.raises(
        FrontierError, match=r"incomplete cluster: .* 16000 of 16384 .*redis-cli --cluster fix"
    ):
        Frontier.connect(f"redis+cluster://127.0.0.1:{port}", Settings())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:secret@127.0.0.1:1/0", "cannot be reached"),
        ("redis+sentinel://127.0.0.1:1", "name the service"),
        ("redis+magic://127.0.0.1:1", "no Redis connection of kind 'magic'"),
        ("http://127.0.0.1:1", "REDIS_URL to a running server"),
        ("redis+cluster://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(url: str, words: str) -> None:
    with pytest.raises(FrontierError, match=words) as caught:
        Frontier.connect(url, Settings())
    assert "secret" not in str(caught.value)


def test_a_server_that_hangs_up_gets_the_request_again(
    redis_server: Callable[..., RedisServer], tmp_path: Path
) -> None:
    server, front = redis_server(), tmp_path / "front.sock"
    with Proxy(front, server.socket) as proxy:
        proxy.lose_answers(4)
        assert Frontier.connect(f"unix://{front}", Settings()).open_tasks() == []
        assert proxy.lost == 4
        proxy.lose_answers(1000)
        with pytest.raises(FrontierError, match="cannot be reached"):
            Frontier.connect(f"unix://{front}", Settings())
