"""The protocol, checked in all interleavings of a small model; and every mutant of it is found out.
``BUDGET=2,1,1,1`` (kills, leases that end, losses of Redis, lost answers) digs deeper."""

from __future__ import annotations

import os

import pytest

from tests.protocol.check import explore
from tests.protocol.model import MUTANTS, Budget

BUDGETS = [(0, 0, 0, 0), (1, 1, 0, 1), (0, 0, 1, 1), (2, 0, 0, 0)]
if os.environ.get("BUDGET"):
    kills, expiries, losses, lost_answers = map(int, os.environ["BUDGET"].split(","))
    BUDGETS = [(kills, expiries, losses, lost_answers)]


@pytest.mark.timeout(0 if os.environ.get("BUDGET") else 120)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_protocol_holds(budget: tuple[int, int, int, int]) -> None:
    found = explore(Budget(*budget))
    assert found.problem == "", found.trace
    print(f"{Budget(*budget)}: {found.states:,} states")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_line_is_needed(mutant: str) -> None:
    assert explore(Budget(*MUTANTS[mutant]), mutant).problem != ""
    assert explore(Budget(*MUTANTS[mutant])).problem == ""
