"""The simulation: the promises hold for some seeds, a seed is always the same run, and planted
defects are found."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.simulation.__main__ import parse
from tests.simulation.defects import DEFECTS, planted

FOUND_SOON = ("claim without a list", "replay keeps slots", "complete admits nothing")


def simulate(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the last line and the output of a run."""
    program = [sys.executable, "-m", "tests.simulation", *arguments]
    done = subprocess.run(program, cwd=CHECKOUT, capture_output=True, text=True, timeout=600)
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines else {}, done.stdout + done.stderr


@pytest.mark.timeout(700)
def test_the_promises_hold_whatever_fails() -> None:
    code, totals, output = simulate("--first", "1", "--seeds", "4")
    assert code == 0, output
    assert totals["faults"] == 32
    assert totals["crawls"] >= 4
    assert totals["fetches"] > 100


@pytest.mark.timeout(700)
def test_a_seed_is_always_the_same_run() -> None:
    """Also after another one in the same process."""
    (_, both, _), (_, again, _) = (simulate("--first", "4", "--seeds", "2") for _ in range(2))
    assert both["trace"] == again["trace"]
    alone = [simulate("--seed", seed)[1] for seed in ("4", "5")]
    assert both["steps"] == sum(one["steps"] for one in alone) > 0


@pytest.mark.timeout(700)
def test_planted_defects_are_found() -> None:
    for name in DEFECTS:  # all of them have something to break
        with planted(name):
            pass
    code, totals, output = simulate("--defects", *FOUND_SOON)
    assert code == 0, output
    assert totals == {"defects": len(FOUND_SOON), "missed": []}


def test_its_arguments() -> None:
    assert parse(["--seed", "7"]).first == 7
    assert parse([]).seeds == 20
    assert parse(["--minutes", "3"]).seeds == 0
    for wrong in (["--seed", "7", "--minutes", "3"], ["--first", "2", "--seed", "7"]):
        with pytest.raises(SystemExit):
            parse(wrong)
