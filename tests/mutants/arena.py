"""Arena: a copy of the checkout for the trials of mutants, one after the other."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from crawlservice.cli.process_group import die_with_parent
from tests.mutants import lua
from tests.mutants.mutant import Mutant

CHECKOUT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".hypothesis", ".*_cache", "__pycache__", "build", "dist", "var")
)
HANGS = 3.0  # seconds for a test, on top of ten times its duration on the sound code
FIRST_LOOK = 60.0  # seconds, if that is unknown
SIMULATED = 1800.0  # seconds for all its simulations, on the busiest machine
WHY = 200  # characters


class Row(NamedTuple):
    """The result of one test. ``failed`` is "" or why. ``verbs``: those that it
    called; ``lines``: file -> its lines that ran, where that is known."""

    test: str
    failed: str = ""
    seconds: float = 0.0
    verbs: tuple[str, ...] = ()
    lines: Mapping[str, Sequence[int]] = MappingProxyType({})
    again: bool = False  # it failed before, and passed on the sound code


class Arena:
    """Use as a context; ``tests`` are the names of all tests of the suites."""

    def __init__(self, suites: Iterable[str]) -> None:
        self._suites = [*suites]
        self._directory = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.tests: list[str] = []

    def __enter__(self) -> Arena:
        shutil.copytree(CHECKOUT, self._directory / "checkout", ignore=LEFT_OUT)
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def look(self, tests: Iterable[str], *forms: dict[str, str]) -> list[Row]:
        """Runs the tests on the sound code, and records the lines run. ``forms``: the scripts in
        forms of the same effect (file -> text); a test that fails with one is run with the next."""
        left, rows = [*tests], []
        for files in forms or ({},):
            order = {"look": True, "files": files, "tests": [(test, FIRST_LOOK) for test in left]}
            found = self._ask(order) if left else []
            left = [row.test for row in found if row.failed]
            rows += [row for row in found if not row.failed]
        return [*rows, *(row for row in found if row.failed)]

    def fight(self, mutant: Mutant, tests: Iterable[Row], patience: float = HANGS) -> list[Row]:
        """Runs the tests, in this order, up to the first that notices the mutant: it fails, and
        passes on the sound code. Then that is the last row, and its ``again`` is true."""
        order = [(test.test, patience + 10 * test.seconds) for test in tests]
        return self._ask({"tests": order, "files": {mutant.file: lua.bounded(mutant.source)}})

    def simulate(self, mutant: Mutant) -> str:
        """The seed whose simulation notices the mutant, and how; "" if none does."""
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.mutants.simulated"],
                cwd=self._directory / "checkout",
                input=json.dumps([mutant.file, lua.bounded(mutant.source)]),
                capture_output=True,
                text=True,
                timeout=SIMULATED,
            )
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode:
            raise RuntimeError(f"the simulation of {mutant}: {done.stderr[-3000:]}")
        return done.stdout.strip()[:WHY]

    def _ask(self, order: dict[str, Any]) -> list[Row]:
        if not self._reads:
            self._stop()
            self._start()
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        rows = [Row(**row | {"verbs": tuple(row.get("verbs", ()))}) for row in self._answer()]
        return rows

    @property
    def _reads(self) -> bool:
        """Whether it still reads: it ends itself, after its answer, when its Redis hangs."""
        try:
            self._orders.write("{}\n")
            self._orders.flush()
            return self._answer() == []
        except (OSError, EOFError):
            return False

    def _answer(self) -> list[dict[str, Any]]:
        line = self._answers.readline()
        if not line:
            raise EOFError("the tests' process ended")
        answer: list[dict[str, Any]] = json.loads(line)
        return answer

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.mutants.rounds", str(theirs.fileno())),
                    *(f"--basetemp={self._directory / 't'}", *self._suites),
                ],
                cwd=self._directory / "checkout",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        with ours:
            self._orders, self._answers = ours.makefile("w"), ours.makefile("r")
        try:
            line = self._answers.readline()
            self.tests = json.loads(line)
        except ValueError:
            raise RuntimeError((self._directory / "log").read_text()[-3000:]) from None

    def _stop(self) -> None:
        if self._process is not None:
            for file in (self._orders, self._answers):
                try:
                    file.close()
                except OSError:
                    pass
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
