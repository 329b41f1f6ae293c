"""Rounds: inside a pytest that has collected its tests once, each mutant is tried in a fork of it.

``python -m tests.mutants.rounds <descriptor of a socket> <tests>`` in a copy of the checkout."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol
from redis import Redis
from redis.commands.core import Script
from redis.exceptions import RedisError, ResponseError

WHY = 200  # characters
ROOT = Path.cwd()
TRIALS = 4  # of a test that fails, while the machine may be the reason
BUSY = 10  # times the duration on the sound code: a slower test does not come to its end
STEADY = "tests/frontier/"  # tests in one process, whose speed decides nothing
SOUND: dict[str, str] = {}  # file of a script -> its text
MARK = re.compile(rb"@(\S+\.lua):(\d+)$", re.MULTILINE)  # as in lua.marked


class Rounds:
    """Reads orders from the socket, one per line, and answers them:

    ``{"tests": [[test, seconds it may take], ...], "files": {file: source}}`` tries a mutant up to
    the first test that notices it; with ``"look": true``, runs all the tests with these files, and
    reports the code that each runs. The answer has a row for each run of a test."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from crawlframe.frontier.client import scripts

        self._items = {item.nodeid: item for item in session.items}
        for verb in scripts.verbs():
            scripts.source(verb)  # kept, and shared by all forks
        SOUND.update(
            {str(path.relative_to(ROOT)): path.read_text() for path in scripts.LUA.rglob("*.lua")}
        )
        self._warm_up(session.items)
        reader, writer = self._orders.makefile("r"), self._orders.makefile("w")
        self._say(writer, sorted(self._items))
        for line in reader:
            order = json.loads(line)
            self._say(writer, [*(self._look(order) if order.get("look") else self._try(order))])
            if not self._redis_answers():
                break  # a script that does not end; another process starts anew
        return True

    @staticmethod
    def _say(writer: IO[str], words: Any) -> None:
        writer.write(json.dumps(words) + "\n")
        writer.flush()

    def _warm_up(self, items: list[pytest.Item]) -> None:
        """Runs the first steps of a session once, so that all forks share them."""
        for wanted in ("redis_url", "sqlite_template", "postgres_template"):
            kind = wanted.removesuffix("_template")
            for item in items:
                names = getattr(item, "fixturenames", ())
                if wanted in names or ("database" in names and f"[{kind}" in item.name):
                    self._run_item(item)
                    break

    def _run_item(self, item: pytest.Item) -> list[pytest.TestReport]:
        # As if the session had a next test: its fixtures stay.
        return runtestprotocol(item, nextitem=item.session, log=False)  # type: ignore[arg-type]

    def _redis(self) -> Redis | None:
        """The server that tests share, if it exists yet."""
        item = next(iter(self._items.values()))
        manager: Any = item.session._fixturemanager
        for definition in manager.getfixturedefs("redis_url", item) or ():
            if definition.cached_result is not None:
                return Redis.from_url(str(definition.cached_result[0]), socket_timeout=60)
        return None

    def _redis_log(self) -> Path | None:
        if (redis := self._redis()) is None:
            return None
        with redis:
            return Path(str(redis.config_get("dir")["dir"])) / "redis.log"

    def _redis_is_busy(self) -> bool:
        """Whether it reports a script that has run for seconds."""
        if redis := self._redis():
            with redis, suppress(RedisError):
                try:
                    redis.ping()
                except ResponseError as error:
                    return str(error).startswith("BUSY")
        return False

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

    def _look(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        left = dict(order["tests"])
        while left:
            for row in self._fork(left, order["files"], look=True):
                yield row
                del left[row["test"]]

    def _try(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        left, files = dict(order.get("tests", ())), order.get("files", {})
        while left:
            for row in self._fork(left, files):
                yield row
                limit = left.pop(row["test"])
                if row["failed"]:
                    break
            if row["failed"] and (again := self._again(row, limit, files)):
                yield again | {"again": True}
                return

    def _again(
        self, row: dict[str, Any], limit: float, files: dict[str, str]
    ) -> dict[str, Any] | None:
        """The test that failed passes on the sound code, in a fraction of the time that it was
        given, and, unless it is steady, fails once more. None if the machine may be the reason."""
        test = row["test"]
        once_more = not test.startswith(STEADY)
        for _ in range(TRIALS):
            if self._redis_is_busy():
                return row
            sound = self._once(test, limit, {})
            if not sound["failed"] and BUSY * sound["seconds"] <= limit:
                if once_more:
                    row = self._once(test, limit, files)
                return row if row["failed"] else None
            limit, once_more = max(limit, 2 * BUSY * sound["seconds"]), True
        return None

    def _once(self, test: str, limit: float, files: dict[str, str]) -> dict[str, Any]:
        return next(self._fork({test: limit}, files))

    def _fork(
        self, tests: dict[str, float], files: dict[str, str], *, look: bool = False
    ) -> Iterator[dict[str, Any]]:
        with _changed(files):
            yield from self._in_fork(tests, files, look)

    def _in_fork(
        self, tests: dict[str, float], files: dict[str, str], look: bool
    ) -> Iterator[dict[str, Any]]:
        from crawlservice.cli.process_group import die_with_parent

        ear, mouth = os.pipe()
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            if die := die_with_parent(signal.SIGKILL):
                die()
            os.close(ear)
            self._child([*tests], files, mouth, look)
        os.close(mouth)
        try:
            with os.fdopen(ear, "rb", buffering=0) as pipe:
                for test, limit in [*tests.items()]:
                    row = _line(pipe, limit)
                    if row is None:
                        yield {"test": test, "failed": "hangs", "seconds": limit}
                        return
                    yield row if row else {"test": test, "failed": "the process ended"}
                    if not row:
                        return
        finally:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _child(self, tests: list[str], files: dict[str, str], mouth: int, look: bool) -> NoReturn:
        _put_in_scripts(files)
        log = self._redis_log() if look else None
        for test in tests:
            began = time.monotonic()
            noticed = Noticed(log)
            with noticed if look else nullcontext():
                reports = self._run_item(self._items[test])
            failed = next((_why(report) for report in reports if report.failed), "")
            row = {"test": test, "failed": failed, "seconds": time.monotonic() - began}
            if look:
                row |= {"verbs": sorted(noticed.verbs), "lines": noticed.lines()}
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


def _put_in_scripts(files: dict[str, str]) -> None:
    """Gives the verbs these texts of their files. To put all of them together again takes longer
    than most tests."""
    from crawlframe.frontier.client import scripts

    sound = scripts.source
    pairs = [(SOUND[file], text) for file, text in files.items()]

    @cache
    def source(verb: str) -> str:
        whole = sound(verb)
        for before, after in pairs:
            whole = whole.replace(before, after)
        return whole

    if pairs:
        scripts.source = source


@contextmanager
def _changed(files: dict[str, str]) -> Iterator[None]:
    """Makes the files contain these sources, for processes that tests start."""
    before = {ROOT / file: (ROOT / file).read_text() for file in files}
    try:
        for file, source in files.items():
            (ROOT / file).write_text(source)
        yield
    finally:
        for path, source in before.items():
            path.write_text(source)


class Noticed:
    """Records, as a context, the verbs whose scripts are called, and the lines of the scripts that
    run, as these log them."""

    def __init__(self, log: Path | None) -> None:
        self.verbs: set[str] = set()
        self._call: Any = Script.__call__
        self._log = log
        self._logged = log.stat().st_size if log else 0

    def lines(self) -> dict[str, list[int]]:
        """File -> numbers of the lines that ran."""
        lines = defaultdict[str, set[int]](set)
        if self._log:
            with self._log.open("rb") as log:
                log.seek(self._logged)
                for found in MARK.finditer(log.read()):
                    lines[found[1].decode()].add(int(found[2]))
        return {file: sorted(numbers) for file, numbers in lines.items()}

    def __enter__(self) -> None:
        from crawlframe.frontier.client import scripts

        verbs = {scripts.source(verb): verb for verb in scripts.verbs()}
        call: Callable[..., Any] = Script.__call__
        self._call = call

        def noticing(script: Script, *args: Any, **options: Any) -> Any:
            self.verbs.add(verbs.get(str(script.script), ""))
            return call(script, *args, **options)

        Script.__call__ = noticing  # type: ignore[assignment, method-assign]

    def __exit__(self, *_: object) -> None:
        Script.__call__ = self._call  # type: ignore[method-assign]


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
