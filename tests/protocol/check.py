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
    start = first(budget, last)
    came_from: dict[State, State | None] = {start: None}
    back: dict[State, list[State]] = {}  # state -> those from which an ordinary step leads to it
    waiting, good = [start], []
    while waiting:
        following = []
        for state in waiting:
            for problem in violations(state):
                return Finding(len(came_from), problem, _trace(came_from, state, mutant))
            if has_ended(state):
                good.append(state)
            for _, _, ordinary, after in steps(state, mutant):
                if ordinary:
                    back.setdefault(after, []).append(state)
                if after not in came_from:
                    came_from[after] = state
                    following.append(after)
        waiting = following
    # Without further trouble, the end must be reachable from everywhere.
    hopeful = set(good)
    while good:
        for before in back.get(good.pop(), ()):
            if before not in hopeful:
                hopeful.add(before)
                good.append(before)
    for state in came_from:
        if state not in hopeful:
            return Finding(len(came_from), "the task never ends", _trace(came_from, state, mutant))
    return Finding(len(came_from), "", [])


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


def _trace(came_from: dict[State, State | None], state: State, mutant: str) -> list[Step]:
    trace: list[Step] = []
    while (before := came_from[state]) is not None:
        trace.append(next(step for step in steps(before, mutant) if step.state == state))
        state = before
    return trace[::-1]
