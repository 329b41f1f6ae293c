"""Every state that the model can come to, and whether from each of them the task can still end."""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.model import Budget, State, closure, first, steps, violations


class Finding(NamedTuple):
    """``problem``: "" when everything holds. ``trace``: how it came to that, oldest first."""

    states: int
    problem: str
    trace: list[State]


def explore(budget: Budget, mutant: str = "") -> Finding:
    """Walks through all states, breadth first, so that a trace is as short as can be."""
    start = first(budget)
    came_from: dict[State, State | None] = {start: None}
    back: dict[State, list[State]] = {}  # state -> those from which an ordinary step leads to it
    waiting, good = [start], []
    while waiting:
        following = []
        for state in waiting:
            for problem in violations(state):
                return Finding(len(came_from), problem, _trace(came_from, state))
            if _has_ended(state):
                good.append(state)
            for ordinary, after in steps(state, mutant):
                if ordinary:
                    back.setdefault(after, []).append(state)
                if after not in came_from:
                    came_from[after] = state
                    following.append(after)
        waiting = following
    # Without any more trouble, the end must be in reach from everywhere.
    hopeful = set(good)
    while good:
        for before in back.get(good.pop(), ()):
            if before not in hopeful:
                hopeful.add(before)
                good.append(before)
    for state in came_from:
        if state not in hopeful:
            return Finding(len(came_from), "the task never ends", _trace(came_from, state))
    return Finding(len(came_from), "", [])


def _has_ended(state: State) -> bool:
    database = state.database
    return database.ends == 1 and {page for page, _ in database.ledger} == closure(database)


def _trace(came_from: dict[State, State | None], state: State | None) -> list[State]:
    trace = []
    while state is not None:
        trace.append(state)
        state = came_from[state]
    return trace[::-1]
