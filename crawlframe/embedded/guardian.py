"""The guardian of a checkout's private Redis server: starts it, restarts it when it dies, and
stops it when its last user has ended. server.py runs this file as a separate program, with the
standard library only, so that it is small and outlives the process that started it.

All state is in three lock files in the server's directory, so that nothing is stale after a
kill -9: ``users.lock`` is shared by the users, ``guardian.lock`` is held for the guardian's life
(it inherits it locked), and ``server.lock`` for the server's life (the server inherits it)."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LOOK_EVERY = 0.25  # seconds between two checks of users and server
ANSWER_WITHIN = 30.0  # seconds a server may take to answer after its start
STOP_WITHIN = 10.0  # seconds until a stopping server is killed
READY = "ready"  # the starter's signal that the server answers
MAX_LOG = 1 << 20  # bytes; a larger log is started afresh with the next server


class StartFailed(Exception):
    """The server did not start; the message says why."""


def open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ask(socket_path: Path, command: str) -> str:
    """The first line of the server's answer; "" when there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(socket_path))
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(4096).decode(errors="replace").partition("\r\n")[0]
        except OSError:
            return ""


class Server:
    """The Redis server of one directory, started here or left behind by an earlier guardian."""

    def __init__(self, directory: Path, socket_path: Path, command: list[str]) -> None:
        self.directory = directory
        self.socket_path = socket_path
        self.command = command
        self.log = directory / "redis.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once the server answers. Raises StartFailed."""
        lock = open_lock(self.directory / "server.lock")
        try:
            if try_lock(lock, fcntl.LOCK_EX):
                self.socket_path.unlink(missing_ok=True)
                fresh = self.log.exists() and self.log.stat().st_size > MAX_LOG
                with self.log.open("wb" if fresh else "ab") as log:
                    self.log_start = log.tell()
                    self.process = subprocess.Popen(
                        self.command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        pass_fds=[lock],
                    )
            else:
                self.process = None
        finally:
            os.close(lock)
        self._wait_for_answer()

    def is_up(self) -> bool:
        # The socket file may have been removed; no new client could then reach the server.
        return self._lives() and self.socket_path.exists()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
        elif self._lives():
            ask(self.socket_path, "SHUTDOWN")
        deadline = time.monotonic() + STOP_WITHIN
        while self._lives() and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + ANSWER_WITHIN
        while not (answer := ask(self.socket_path, "PING")) or answer.startswith("-LOADING"):
            if answer:
                deadline = time.monotonic() + ANSWER_WITHIN
            if not self._lives():
                raise StartFailed(f"{self.command[0]} did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                self.stop()
                raise StartFailed(f"the Redis server does not answer on {self.socket_path}")
            time.sleep(0.01)

    def _lives(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            return False
        lock = open_lock(self.directory / "server.lock")
        try:
            return not try_lock(lock, fcntl.LOCK_SH)
        finally:
            os.close(lock)

    def _last_words(self) -> str:
        if self.process is None:
            return "another server of this directory was there, and died"
        with self.log.open(errors="replace") as log:
            log.seek(self.log_start)
            lines = [re.sub(r"^\d+:\w .*? [*#.-] ", "", line.strip()) for line in log]
        return " / ".join([line for line in lines if line][-3:]) or "it wrote no reason"


def main(directory: Path, socket_path: Path, command: list[str]) -> None:
    """Writes READY, or the problem, to standard output for the starter, then closes it."""
    server = Server(directory, socket_path, command)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        server.start()
    except (StartFailed, OSError) as error:
        print(error, flush=True)
        return
    print(READY, flush=True)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    users = open_lock(directory / "users.lock")
    try:
        while not try_lock(users, fcntl.LOCK_EX):
            time.sleep(LOOK_EVERY)
            if not server.is_up():
                restart(server)
    finally:
        server.stop()


def restart(server: Server) -> None:
    server.stop()
    try:
        server.start()
    except (StartFailed, OSError):
        time.sleep(1)  # the reason is in its log; a full disk, for example, may have room again


if __name__ == "__main__" and os.fork() == 0:
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
