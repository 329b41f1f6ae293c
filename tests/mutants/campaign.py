"""Campaign: tries the mutants that have not been tried, in several arenas at once."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tests.mutants.arena import Arena
from tests.mutants.every import shown
from tests.mutants.mutant import Mutant
from tests.mutants.simulated import NOTICES
from tests.mutants.verdicts import Verdict, Verdicts

SUITES = (
    "tests/frontier",
    *(f"tests/crawlservice/test_{name}.py" for name in ("recovery", "audit", "store")),
)
LOOK = 50  # tests at a time
TELL_EVERY = 25  # mutants


class Campaign:
    """No new mutant is tried ``seconds`` after the start."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        verdicts: Verdicts,
        tell: Callable[[str], None],
        seconds: float,
    ) -> None:
        self._verdicts = verdicts
        self._tell = tell
        self._total = len(mutants)
        self._left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        for mutant in mutants:
            self._left.put(mutant)
        self._seen: Counter[bool] = Counter()  # noticed or not
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._shown = shown()
        self._ends = self._began + seconds

    def run(self, jobs: int) -> int:
        """Returns when all are tried, when the time is over, or after Ctrl-C when the current ones
        are finished: how many are left."""
        threads = [threading.Thread(target=self._work) for _ in range(jobs if self._total else 0)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self._tell("ends after the mutants at hand; the same command goes on")
            self._stop.set()
            for thread in threads:
                thread.join()
        return self._left.qsize()

    def _work(self) -> None:
        with Arena(SUITES) as arena:
            with self._lock:  # one looks for all
                self._look(arena)
            while self._goes_on():
                try:
                    mutant = self._left.get_nowait()
                except queue.Empty:
                    return
                with self._lock:
                    statement = self._shown.statement(mutant)
                    tests = self._verdicts.likeliest(mutant, arena.tests, statement)
                rows = arena.fight(mutant, tests)
                verdict = Verdict("")
                if rows and rows[-1].again:
                    verdict = Verdict(rows[-1].test, rows[-1].failed)
                elif found := arena.simulate(mutant):
                    verdict = Verdict(NOTICES, found)
                with self._lock:
                    self._keep(mutant, verdict)

    def _goes_on(self) -> bool:
        return not self._stop.is_set() and time.monotonic() < self._ends

    def _look(self, arena: Arena) -> None:
        """Runs the tests that have changed since, on the sound code."""
        new = [test for test in arena.tests if test not in self._verdicts.tests]
        if not new:
            return
        self._tell(f"first {len(new)} tests of the code as it is")
        for at in range(0, len(new), LOOK):
            if not self._goes_on():
                return
            some = new[at : at + LOOK]
            rows = arena.look(some, self._shown.marked, self._shown.bounded)
            self._verdicts.look(rows)
            for row in rows:
                if row.failed:
                    self._tell(f"left out, as it fails on the code as it is: {row.test}")
            done = at + len(some)
            self._tell(f"{time.monotonic() - self._began:6.0f} s  {done}/{len(new)} tests")

    def _keep(self, mutant: Mutant, verdict: Verdict) -> None:
        self._verdicts.keep(mutant, verdict)
        self._seen[bool(verdict.test)] += 1
        place = f"{time.monotonic() - self._began:6.0f} s  {self._seen.total()}/{self._total}"
        if not verdict.test:
            self._tell(f"{place}  not noticed: {mutant}")
        elif self._seen.total() % TELL_EVERY == 0:
            self._tell(f"{place}  {self._seen[False]} not noticed")
