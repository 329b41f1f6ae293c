"""Simulated: the last round of a mutant, in simulated clusters with faults.

``python -m tests.mutants.simulated`` reads a mutant, as JSON of its file and source."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SEEDS = range(1, 21)
NOTICES = "tests/simulation/test_simulation.py::test_the_promises_hold_whatever_fails"


@contextmanager
def mutated(file: str, text: str) -> Iterator[None]:
    """The verbs have this text in place of the file."""
    from crawlframe.frontier.client import scripts

    sound: Callable[[str], str] = scripts.source
    before = Path(file).read_text()
    scripts.source = lambda verb: sound(verb).replace(before, text)  # type: ignore[assignment]
    try:
        yield
    finally:
        scripts.source = sound  # type: ignore[assignment]


def main() -> None:
    from tests.simulation import bootstrap

    file, text = json.load(sys.stdin)
    with bootstrap.prepared() as setup:
        from tests.simulation import campaign

        for seed in SEEDS:
            with mutated(file, text):
                violations = campaign.attempt(setup, seed).violations
            if violations and not campaign.attempt(setup, seed).violations:
                print(f"seed {seed}: {violations[0].splitlines()[0]}", flush=True)
                break
    from tests.simulation.interpreter import real_exit

    real_exit(0)  # Python's own end waits for threads that are simulated


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # so that sets have one order
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutants.simulated"])
    main()
