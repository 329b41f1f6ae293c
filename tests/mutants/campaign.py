"""Campaign: tries the mutants that have not been tried, in several arenas at once."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tests.mutants.arena import Arena, Row
from tests.mutants.mutant import Mutant
from tests.mutants.verdicts import QUICK, Verdict, Verdicts

FRONTIER = "tests/frontier"
SUITES = (
    FRONTIER,
    *(f"tests/crawlservice/test_{name}.py" for name in ("recovery", "audit", "store")),
    "tests/node",
)
SHORT = 0.15  # seconds that a test may take in a quick run
TELL_EVERY = 25  # mutants


class Campaign:
    """``quick`` leaves out slow tests."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        verdicts: Verdicts,
        tell: Callable[[str], None],
        *,
        quick: bool = False,
    ) -> None:
        self._verdicts = verdicts
        self._tell = tell
        self._quick = quick
        self._total = len(mutants)
        self._left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        for mutant in mutants:
            self._left.put(mutant)
        self._seen: Counter[bool] = Counter()  # noticed or not
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._began = time.monotonic()

    def run(self, jobs: int) -> None:
        """Returns when all are tried, or after Ctrl-C when the current ones are finished."""
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

    def _work(self) -> None:
        with Arena([FRONTIER] if self._quick else SUITES) as arena:
            with self._lock:  # one looks for all
                new = [test for test in arena.tests if test not in self._verdicts.tests]
                if new:
                    self._tell(f"first {len(new)} tests of the code as it is")
                    self._verdicts.look(arena.look(new))
            while not self._stop.is_set():
                try:
                    mutant = self._left.get_nowait()
                except queue.Empty:
                    return
                with self._lock:
                    tests = self._tests(mutant, arena)
                rows = arena.fight(mutant, tests)
                verdict = Verdict("", QUICK if self._quick else "")
                if rows and rows[-1].failed:
                    verdict = Verdict(rows[-1].test, rows[-1].failed)
                with self._lock:
                    self._keep(mutant, verdict)

    def _tests(self, mutant: Mutant, arena: Arena) -> list[Row]:
        tests = self._verdicts.likeliest(mutant, arena.tests)
        return [row for row in tests if not self._quick or row.seconds < SHORT]

    def _keep(self, mutant: Mutant, verdict: Verdict) -> None:
        self._verdicts.keep(mutant, verdict)
        self._seen[bool(verdict.test)] += 1
        place = f"{time.monotonic() - self._began:6.0f} s  {self._seen.total()}/{self._total}"
        if not verdict.test:
            self._tell(f"{place}  not noticed: {mutant}")
        elif self._seen.total() % TELL_EVERY == 0:
            self._tell(f"{place}  {self._seen[False]} not noticed")
