"""LocalNode: a child process `runcrawler --once`, for a command that crawls and ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from crawlframe.errors import CrawlframeError
from crawlservice.project import manage_command

KILL_AFTER = 15.0  # seconds beyond the grace time
SETTLE = 3.0  # seconds for a node to notice that nothing is left to do
LAST_LINES = 20


class NodeEnded(CrawlframeError):
    """The crawling process ended before its task did."""


class LocalNode:
    """A child process in a session of its own, so that Ctrl-C reaches only the command, which stops
    it gracefully. It logs to ``var/log/<label>.log``."""

    def __init__(
        self,
        label: str,
        node: str,
        *,
        workers: int | None = None,
        concurrency: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.log = settings.VAR_DIR / "log" / f"{label}.log"
        self.command = [*manage_command(), "runcrawler", "--once", "--node", node]
        if workers is not None:
            self.command += ["--workers", str(workers)]
        if concurrency is not None:
            self.command += ["--concurrency", str(concurrency)]
        self.env = {**os.environ, **(env or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LocalNode:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll() if self.process else None

    def settle(self) -> None:
        """Lets it end by itself, which it does when no task is left."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(SETTLE)

    def stop(self) -> None:
        """Asks it to stop and waits; unfinished requests are given back. Ctrl-C while waiting asks
        again, which makes it stop sooner."""
        process = self.process
        if process is None:
            return
        stop_timeout = settings.CRAWLFRAME.grace + KILL_AFTER
        while process.poll() is None:
            try:
                process.send_signal(signal.SIGTERM)
                process.wait(stop_timeout)
            except KeyboardInterrupt:
                continue
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ended_early(self, what: str) -> NodeEnded:
        """The error to raise when it ended before ``what`` was done."""
        code = self.exit_code()
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with code {code}"
        lines = last_lines(self.log) or ["(nothing)"]
        return NodeEnded(
            f"the node {how} while {what}. Last lines of its log {self.log}:\n  "
            + "\n  ".join(lines)
        )


def last_lines(path: Path, count: int = LAST_LINES) -> list[str]:
    """The end of a text file; empty when there is none."""
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip() for line in deque(file, maxlen=count)]
    except OSError:
        return []
