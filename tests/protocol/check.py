"""Explores every state that the model can reach, and whether the task can still end from each."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from tests.protocol.model import LAST, Budget, State, Step, closure, first, steps


class Finding(NamedTuple):
    """``problem``: "" if everything holds. ``trace``: how it got there, oldest first."""

    states: int
    problem: str
    trace: list[Step]


@cache
def explore(budget: Budget, mutant: str = "", last: bool = False) -> Finding:
    """Walks through all states, breadth first, so that traces are as short as possible."""
    with _no_collections():
        return _explore(budget, mutant, last)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Disables garbage collection, which would take a quarter of the time, in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _explore(budget: Budget, mutant: str, last: bool) -> Finding:
    # Each state is hashed once for each step to it: that is most of the time.
    states = [first(budget, last)]
    number = {states[0]: 0}
    came_from = [0]
    back: list[list[int]] = [[]]  # numbers of the states from which an ordinary step leads to it
    good = []
    for at, state in enumerate(states):  # it grows
        for problem in violations(state):
            return Finding(at + 1, problem, _trace(states, came_from, at, mutant))
        if has_ended(state):
            good.append(at)
        for _, _, ordinary, after in steps(state, mutant):
            to = number.setdefault(after, len(states))
            if to == len(states):
                states.append(after)
                came_from.append(at)
                back.append([])
            if ordinary:
                back[to].append(at)
    # Without further trouble, the end must be reachable from everywhere.
    hopeful = set(good)
    while good:
        for before in back[good.pop()]:
            if before not in hopeful:
                hopeful.add(before)
                good.append(before)
    for at in range(len(states)):
        if at not in hopeful:
            problem = "the task never ends"
            return Finding(len(states), problem, _trace(states, came_from, at, mutant))
    return Finding(len(states), "", [])


def violations(state: State) -> Iterator[str]:
    redis, database = state.redis, state.database
    if len(set(database.items)) < len(database.items):
        yield "items stored twice"
    if {page for page, _ in database.ledger} - set(database.items) != database.cancelled:
        yield "a row without its items"
    if database.ends > 1:
        yield "two ends"
    recorded = {page for page, _ in database.ledger}
    whole = recorded == closure(database)
    if database.ends and database.settled and not whole:
        yield "an early end"
    if LAST in recorded and not whole and not database.cancelling:
        yield "an early last word"
    if LAST in database.cancelled:
        yield "no last word"
    waiting = len(redis.ready) + len(redis.held) + len(redis.parked) + redis.waits
    if redis.na - redis.nf - redis.cancelled != waiting:
        yield "counters and queues disagree"
    if len({page for page, *_ in redis.held}) < len(redis.held):
        yield "two holders"


def has_ended(state: State) -> bool:
    database = state.database
    whole = {page for page, _ in database.ledger} == closure(database)
    return database.ends == 1 and database.settled and whole


def _trace(states: list[State], came_from: list[int], at: int, mutant: str) -> list[Step]:
    trace: list[Step] = []
    while at:
        before = came_from[at]
        found = steps(states[before], mutant)
        trace.append(next(step for step in found if step.state == states[at]))
        at = before
    return trace[::-1]
