"""Rounds: inside a pytest that has collected its tests once, each mutant is tried in a fork of it.

``python -m tests.mutants.rounds <descriptor of a socket> <tests>`` in a copy of the checkout."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol
from redis import Redis
from redis.commands.core import Script
from redis.exceptions import RedisError

from tests.mutants.python import PROTOCOL, module_of
from tests.mutants.swap import put_in

WHY = 200  # characters
ROOT = Path.cwd()


class Rounds:
    """Reads orders from the socket, one per line, and answers them:

    ``{"tests": [[test, seconds it may take], ...], "file": ..., "source": ...}`` tries a mutant up
    to the first test that fails, ``{"look": true, "tests": ...}`` runs the tests of the code as it
    is, and reports what each runs. The answer has a row for each test."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._warm_up(session.items)
        reader, writer = self._orders.makefile("r"), self._orders.makefile("w")
        self._say(writer, sorted(self._items))
        for line in reader:
            order = json.loads(line)
            with _changed(order.get("file"), order.get("source")):
                self._say(writer, [*self._run(order)])
            if not self._redis_answers():
                break  # a script that does not end; another process begins anew
        return True

    @staticmethod
    def _say(writer: IO[str], words: Any) -> None:
        writer.write(json.dumps(words) + "\n")
        writer.flush()

    def _warm_up(self, items: list[pytest.Item]) -> None:
        """Does what a session does once, so that all forks share it."""
        for wanted in ("redis_url", "sqlite_template", "postgres_template"):
            kind = wanted.removesuffix("_template")
            for item in items:
                names = getattr(item, "fixturenames", ())
                if wanted in names or ("database" in names and f"[{kind}" in item.name):
                    self._run_item(item)
                    break
        if redis := self._redis():
            with redis:  # a script that does not end is found out soon
                redis.config_set("lua-time-limit", 1000)

    def _run_item(self, item: pytest.Item) -> list[pytest.TestReport]:
        # As if the session went on without a next test: what it made stays.
        return runtestprotocol(item, nextitem=item.session, log=False)  # type: ignore[arg-type]

    def _redis(self) -> Redis | None:
        """The server that tests share, if it exists yet."""
        item = next(iter(self._items.values()))
        manager: Any = item.session._fixturemanager
        for definition in manager.getfixturedefs("redis_url", item) or ():
            if definition.cached_result is not None:
                return Redis.from_url(str(definition.cached_result[0]), socket_timeout=3)
        return None

    def _redis_answers(self) -> bool:
        redis = self._redis()
        if redis is None:
            return True
        with redis:
            try:
                redis.ping()
            except RedisError:
                with suppress(RedisError):
                    redis.shutdown(nosave=True)
                return False
        return True

    def _run(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        left = dict(order.get("tests", ()))
        again = ""
        while left:
            for row in self._fork(left, order):
                yield row | {"again": row["test"] == again}
                if row["failed"] and not order.get("look"):
                    if row["test"] == again or row["failed"] == "hangs":
                        return
                    again = row["test"]  # once more, for it may have failed by itself
                    left = {again: left[again]} | left
                    break
                del left[row["test"]]

    def _fork(self, tests: dict[str, float], order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        from crawlservice.cli.process_group import die_with_parent

        ear, mouth = os.pipe()
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            if die := die_with_parent(signal.SIGKILL):
                die()
            os.close(ear)
            self._child([*tests], order, mouth)
        os.close(mouth)
        try:
            with os.fdopen(ear, "rb", buffering=0) as pipe:
                for test, limit in [*tests.items()]:
                    row = _line(pipe, limit)
                    if row is None:
                        yield {"test": test, "failed": "hangs"}
                        return
                    yield row if row else {"test": test, "failed": "the process ended"}
                    if not row:
                        return
        finally:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _child(self, tests: list[str], order: dict[str, Any], mouth: int) -> NoReturn:
        from crawlframe.frontier import scripts

        scripts.source.cache_clear()
        if str(order.get("file")).endswith(".py"):
            put_in(module_of(order["file"]), order["source"])
        for test in tests:
            began = time.monotonic()
            parts: set[str] = set()
            if order.get("look"):
                with _noticed(parts):
                    reports = self._run_item(self._items[test])
            else:
                reports = self._run_item(self._items[test])
            failed = next((_why(report) for report in reports if report.failed), "")
            seconds = time.monotonic() - began
            row = {"test": test, "failed": failed, "seconds": seconds, "parts": sorted(parts)}
            os.write(mouth, json.dumps(row).encode() + b"\n")
        os._exit(0)


def _line(pipe: Any, limit: float) -> dict[str, Any] | None:
    """A row; {} if there are no more, None if it does not arrive in time."""
    line, deadline = b"", time.monotonic() + limit
    while not line.endswith(b"\n"):
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        some = pipe.read(1)
        if not some:
            return {}
        line += some
    row: dict[str, Any] = json.loads(line)
    return row


def _why(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = crash.message if crash else str(report.longrepr)
    return " ".join(words.split())[:WHY] or "failed"


@contextmanager
def _changed(file: str | None, source: str | None) -> Iterator[None]:
    """Makes the file contain the source, for processes that tests start."""
    if file is None or source is None:
        yield
        return
    path = ROOT / file
    before = path.read_text()
    path.write_text(source)
    try:
        yield
    finally:
        path.write_text(before)


@contextmanager
def _noticed(parts: set[str]) -> Iterator[None]:
    """Records the verbs whose scripts are called, and the functions of PROTOCOL's files."""
    from crawlframe.frontier import scripts

    verbs = {scripts.source(verb): verb for verb in scripts.verbs()}
    files = {str(ROOT / file): file for file in PROTOCOL}
    call: Callable[..., Any] = Script.__call__

    def noticing(self: Script, *args: Any, **options: Any) -> Any:
        parts.add(verbs.get(str(self.script), ""))
        return call(self, *args, **options)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (file := files.get(frame.f_code.co_filename)):
            parts.add(f"{file}:{frame.f_code.co_qualname.partition('.<')[0]}")

    Script.__call__ = noticing  # type: ignore[method-assign]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        Script.__call__ = call  # type: ignore[method-assign]


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    options = [
        "-q",
        "-n0",
        "--tb=native",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=0",
        "-m",
        "not long and not process",
    ]
    sys.exit(pytest.main([*options, *sys.argv[2:]], plugins=[Rounds(orders)]))


if __name__ == "__main__":
    main()
