"""The protocol, checked in all interleavings of a small model; and every mutant of it is detected.
``BUDGET=2,1,1,1,1,1,1`` (kills, times without Redis, losses of it, lost answers, parkings, cancels,
redirects) explores more."""

from __future__ import annotations

import os
from collections.abc import Iterable
from operator import le

import pytest

from tests.protocol.check import explore
from tests.protocol.model import MUTANTS, MUTANTS_OF_LAST, Budget

pytestmark = pytest.mark.slow


def largest(budgets: Iterable[tuple[int, ...]]) -> list[Budget]:
    """The budgets that no other one includes, with all its states."""
    some = {Budget(*budget) for budget in budgets}
    return sorted(
        one for one in some if not any(one != other and all(map(le, one, other)) for other in some)
    )


BUDGETS = largest([
    (0, 1, 0, 1), (1, 0, 0, 1), (2, 0, 0, 0), (1, 0, 0, 0, 1), (0, 1, 0, 0, 1),
    (1, 0, 0, 0, 0, 1), (0, 0, 0, 0, 1, 1), (1, 0, 0, 0, 0, 0, 2), (0, 0, 0, 1, 0, 0, 1),
    (0, 0, 0, 0, 0, 1, 1), *MUTANTS.values(),
])  # fmt: skip
OF_LAST = largest([
    (1, 0, 0, 1), (0, 1), (0, 0, 1), (0, 0, 0, 0, 1), (1, 0, 0, 0, 0, 1), (0, 0, 0, 0, 1, 1),
    *MUTANTS_OF_LAST.values(),
])  # fmt: skip
LONG = [pytest.param(Budget(0, 0, 1, 1), marks=pytest.mark.long)]
if os.environ.get("BUDGET"):
    LONG = []
    OF_LAST = BUDGETS = [Budget(*map(int, os.environ["BUDGET"].split(",")))]


@pytest.mark.timeout(0 if os.environ.get("BUDGET") else 120)
@pytest.mark.parametrize("budget", [*BUDGETS, *LONG], ids=lambda budget: "-".join(map(str, budget)))
def test_the_protocol_holds(budget: Budget) -> None:
    found = explore(budget)
    assert found.problem == "", found.trace
    print(f"{budget}: {found.states:,} states")


@pytest.mark.timeout(0 if os.environ.get("BUDGET") else 120)
@pytest.mark.parametrize("budget", OF_LAST, ids=lambda budget: "-".join(map(str, budget)))
def test_a_task_with_a_last_word_ends_with_it(budget: Budget) -> None:
    found = explore(budget, last=True)
    assert found.problem == "", found.trace


@pytest.mark.parametrize("mutant", MUTANTS_OF_LAST)
def test_every_line_of_the_last_word_is_needed(mutant: str) -> None:
    assert explore(Budget(*MUTANTS_OF_LAST[mutant]), mutant, last=True).problem != ""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_line_is_needed(mutant: str) -> None:
    assert explore(Budget(*MUTANTS[mutant]), mutant).problem != ""
