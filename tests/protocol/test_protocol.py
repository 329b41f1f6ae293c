"""The protocol, checked in all interleavings of a small model; and every mutant of it is detected.
``BUDGET=2,1,1,1,1,1,1`` (kills, times without Redis, losses of it, lost answers, parkings, cancels,
redirects) explores more."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tests.protocol.check import Finding, explore
from tests.protocol.model import MUTANTS, MUTANTS_OF_LAST, Budget

pytestmark = pytest.mark.slow

# In addition to the budgets of the mutants, which hold too.
BUDGETS = [Budget(0, 1, 0, 1), Budget(1, 0, 0, 1), Budget(0, 0, 1, 1), Budget(2, 0, 0, 0)]
BUDGETS += [Budget(1, 0, 0, 0, 1), Budget(0, 1, 0, 0, 1)]
BUDGETS += [Budget(1, 0, 0, 0, 0, 1), Budget(0, 0, 0, 0, 1, 1)]
BUDGETS += [Budget(1, redirects=2), Budget(0, 0, 0, 1, redirects=1), Budget(cancels=1, redirects=1)]
OF_LAST = [Budget(1, 0, 0, 1), Budget(0, 1), Budget(0, 0, 1), Budget(0, 0, 0, 0, 1)]
OF_LAST += [Budget(1, 0, 0, 0, 0, 1), Budget(0, 0, 0, 0, 1, 1)]
if os.environ.get("BUDGET"):
    OF_LAST = BUDGETS = [Budget(*map(int, os.environ["BUDGET"].split(",")))]


@cache  # many mutants are found with the same budget
def explored(budget: Budget, *, last: bool = False) -> Finding:
    """The protocol as it is."""
    return explore(budget, last=last)


@pytest.mark.timeout(0 if os.environ.get("BUDGET") else 120)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: "-".join(map(str, budget)))
def test_the_protocol_holds(budget: Budget) -> None:
    found = explored(budget)
    assert found.problem == "", found.trace
    print(f"{budget}: {found.states:,} states")


@pytest.mark.timeout(0 if os.environ.get("BUDGET") else 120)
@pytest.mark.parametrize("budget", OF_LAST, ids=lambda budget: "-".join(map(str, budget)))
def test_a_task_with_a_last_word_ends_with_it(budget: Budget) -> None:
    found = explored(budget, last=True)
    assert found.problem == "", found.trace


@pytest.mark.parametrize("mutant", MUTANTS_OF_LAST)
def test_every_line_of_the_last_word_is_needed(mutant: str) -> None:
    budget = Budget(*MUTANTS_OF_LAST[mutant])
    assert explore(budget, mutant, last=True).problem != ""
    assert explored(budget, last=True).problem == ""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_line_is_needed(mutant: str) -> None:
    assert explore(Budget(*MUTANTS[mutant]), mutant).problem != ""
    assert explored(Budget(*MUTANTS[mutant])).problem == ""
