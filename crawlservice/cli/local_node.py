"""LocalNode: a child process that does the work of `runcrawler --once`, for a command that crawls
and ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from django.conf import settings
from django.core.management import load_command_class
from django.db import connections

from crawlframe.errors import CrawlframeError
from crawlservice.cli import utility

KILL_AFTER = 15.0  # seconds beyond the grace time
SETTLE = 3.0  # seconds for a node to notice that nothing is left to do
LAST_LINES = 20


class NodeEnded(CrawlframeError):
    """The crawling process ended before its task did."""


class LocalNode:
    """A fork of this process in a session of its own, so that Ctrl-C reaches only the command,
    which stops it gracefully. While it waits for ``run`` it imports its modules. Make it before
    this process imports the code of spiders."""

    def __init__(self) -> None:
        connections.close_all()  # a fork must not share them
        sys.stdout.flush()
        sys.stderr.flush()
        context = multiprocessing.get_context("fork")
        far, self._line = context.Pipe(duplex=False)
        self.process = context.Process(target=_become_node, args=(far, self._line))
        self.process.start()
        far.close()
        self.log = Path()

    @contextmanager
    def run(
        self,
        label: str,
        node: str,
        *,
        workers: int | None = None,
        concurrency: int | None = None,
        env: dict[str, str] | None = None,
    ) -> Iterator[None]:
        """Runs it with this name, and ``env`` added to its environment, until the context ends. It
        logs to ``var/log/<label>.log``."""
        self.log = settings.VAR_DIR / "log" / f"{label}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        words = ["runcrawler", "--once", "--node", node]
        if workers is not None:
            words += ["--workers", str(workers)]
        if concurrency is not None:
            words += ["--concurrency", str(concurrency)]
        start = {"log": str(self.log), "words": words, "env": env or {}}
        with suppress(BrokenPipeError):  # it has ended, which exit_code says
            self._line.send_bytes(json.dumps(start).encode())
        try:
            yield
        finally:
            self.stop()

    def __enter__(self) -> LocalNode:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()
        self.stop()

    def exit_code(self) -> int | None:
        """None while it runs; 0 if code of a spider has taken it away, as by ignoring SIGCHLD."""
        code = self.process.exitcode
        if code is None and self.process.pid is not None:
            try:
                os.kill(self.process.pid, 0)
            except ProcessLookupError:
                return 0
        return code

    def settle(self) -> None:
        """Lets it end by itself, which it does when no task is left."""
        self.process.join(SETTLE)

    def stop(self) -> None:
        """Asks it to stop and waits; unfinished requests are given back. Ctrl-C while waiting asks
        again, which makes it stop sooner."""
        stop_timeout = settings.CRAWLFRAME.grace + KILL_AFTER
        while self.exit_code() is None:
            try:
                self.process.terminate()
                self.process.join(stop_timeout)
                if self.exit_code() is None:
                    self.process.kill()
                    self.process.join()
            except KeyboardInterrupt:
                continue

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


def _become_node(line: Connection, other: Connection) -> None:
    """Runs in the fork, until the node ends."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    other.close()  # so that it ends with the command
    load_command_class("crawlservice", "runcrawler")
    try:
        start = json.loads(line.recv_bytes())
    except EOFError:  # the command had nothing to crawl
        return
    line.close()
    os.environ.update(start["env"])
    log = os.open(start["log"], os.O_WRONLY | os.O_APPEND)
    for output in (1, 2):
        os.dup2(log, output)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    sys.argv[1:] = start["words"]
    utility.Utility(sys.argv).execute()
