"""Node: ``runcrawler`` of a project, as a process that the benchmark starts, changes and stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import psutil

from benchmarks.reload.rows import Database, Row
from crawlservice.cli.process_group import die_with_parent

STEP_TIMEOUT = 60.0  # seconds for a start, an end, or a page by new code
POLL_EVERY = 0.02  # seconds between two looks into the database
OWN = ("CRAWLFRAME_", "DJANGO_", "DATABASE_URL", "REDIS_URL", "PYTHONDONTWRITEBYTECODE")


class Node:
    """``with Node(project.directory, var) as node:`` runs a node with a database and a Redis of its
    own under ``var``; ``reload`` is for ``--reload``. Its log is ``var``/node.log.

    Raises RuntimeError, with the end of that log, when it does not do what it should."""

    def __init__(
        self, directory: Path, var: Path, workers: int, *, reload: bool = True, log: str = "INFO"
    ) -> None:
        self._directory = directory
        self._log = var / "node.log"
        self._options = ["--workers", str(workers), "--node", "bench"]
        self._options += ["--reload"] if reload else []
        var.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
        self._env = {
            **kept,
            "CRAWLFRAME_VAR_DIR": str(var),
            "DATABASE_URL": f"sqlite:///{var / 'bench.sqlite3'}",
            "CRAWLFRAME_ALLOW_PRIVATE": "127.0.0.0/8",
            "CRAWLFRAME_LOG_LEVEL": log,
            "PYTHONUNBUFFERED": "1",
        }
        self._database = Database(var / "bench.sqlite3")
        self._process: subprocess.Popen[bytes] | None = None
        self.rows: list[Row] = []  # what was read so far

    def start(self) -> None:
        """Starts it; returns at once."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "runcrawler", *self._options],
                cwd=self._directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )

    def stop(self) -> None:
        """Stops it as an operator does: SIGTERM, then waits until all have ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STEP_TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                raise self._problem("it does not end") from None
            self._process = None

    def submit(self) -> None:
        """Starts the crawl of the demo spider, once the node has published it."""
        command = [sys.executable, "manage.py", "submit", "demo"]
        deadline = time.monotonic() + STEP_TIMEOUT
        while True:
            done = subprocess.run(
                command, cwd=self._directory, env=self._env, capture_output=True, check=False
            )
            if not done.returncode:
                return
            if time.monotonic() > deadline:
                raise self._problem(f"no task can be submitted: {done.stderr.decode()}")
            time.sleep(0.2)

    def wait_for(self, change: int, look: float = POLL_EVERY) -> None:
        """Waits until a page was parsed by code with this change."""
        deadline = time.monotonic() + STEP_TIMEOUT
        while True:
            new = self._database.read()
            self.rows += new
            if any(row.change >= change for row in new):
                return
            if self._process is None or self._process.poll() is not None:
                raise self._problem("it ended")
            if time.monotonic() > deadline:
                raise self._problem(f"no page was parsed by code with change {change}")
            time.sleep(look)

    def watch(self, seconds: float) -> None:
        """Lets it work for this long."""
        time.sleep(seconds)
        self.rows += self._database.read()

    def processes(self) -> tuple[psutil.Process, psutil.Process]:
        """The supervisor, and the master that runs the node now."""
        assert self._process is not None
        supervisor = psutil.Process(self._process.pid)
        masters = [
            child for child in supervisor.children() if "--supervised" in " ".join(child.cmdline())
        ]
        if not masters:
            raise self._problem("it has no master")
        return supervisor, masters[-1]

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _problem(self, what: str) -> RuntimeError:
        tail = "\n".join(self.log_text().splitlines()[-20:])
        return RuntimeError(f"the node: {what}; the end of its log:\n{tail}")

    def __enter__(self) -> Node:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            self.rows += self._database.read()
            self._database.close()
