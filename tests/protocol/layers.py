"""A small model of the barrier between layers, for all its interleavings: two partitions, requests
in flight that lead to others in both, and two stewards that both believe to lead.

Each step is one atomic action: a script in one partition, a read of one, or a transaction.
A steward may die before any of its steps. ``mutant`` names a line that is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# Name -> layer, partition, follow-ups. S is a run of start: its follow-ups are of its layer.
PAGES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "R": (0, 0, ("A",)),
    "S": (0, 1, ("B", "T")),
    "T": (0, 0, ()),
    "A": (1, 1, ("D",)),
    "B": (1, 0, ("D",)),
    "D": (2, 0, ()),
}
SEEDS = ("R", "S")
LAST = 2

MUTANTS = (
    "one wave",
    "the other partition is not asked where it is",
    "the row is not compared when it is changed",
    "the parent completes before its children are in",
    "later layers are shown",
    "the frontier goes on before the row",
    "counted before it was read where the partitions are",
)


class Partition(NamedTuple):
    layer: int = 0
    admitted: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


class Reader(NamedTuple):
    """The values that a steward has read."""

    at: str = "row"  # its next step
    row: int = 0
    numbers: tuple[int, ...] = ()


class State(NamedTuple):
    partitions: tuple[Partition, ...]
    held: frozenset[str] = frozenset()
    pushing: frozenset[str] = frozenset()  # recorded; their children abroad are in
    rows: frozenset[str] = frozenset()
    layer: int = 0  # of the task's row
    stewards: tuple[Reader, ...] = (Reader(), Reader())


def first() -> State:
    found = tuple(
        Partition(admitted=frozenset(page for page in SEEDS if PAGES[page][1] == number))
        for number in (0, 1)
    )
    return State(found)


def beyond(partition: Partition) -> int:
    return sum(PAGES[page][0] > partition.layer for page in partition.admitted)


def admit(state: State, pages: tuple[str, ...], number: int) -> State:
    mine = frozenset(page for page in pages if PAGES[page][1] == number)
    partition = state.partitions[number]
    return change(state, number, partition._replace(admitted=partition.admitted | mine))


def change(state: State, number: int, partition: Partition) -> State:
    found = [*state.partitions]
    found[number] = partition
    return state._replace(partitions=tuple(found))


def steps(state: State, mutant: str = "") -> Iterator[tuple[str, State]]:
    """The name and the result of all steps that may be next."""
    yield from _of_nodes(state, mutant)
    for number in range(len(state.stewards)):
        yield from _of_steward(state, number, mutant)


def _of_nodes(state: State, mutant: str) -> Iterator[tuple[str, State]]:
    for partition in state.partitions:
        for page in partition.admitted - partition.ended - state.held:
            if PAGES[page][0] <= partition.layer or mutant == "later layers are shown":
                yield f"claim {page}", state._replace(held=state.held | {page})
    for page in state.held:
        number, links = PAGES[page][1:]
        if page not in state.rows:
            yield f"commit {page}", state._replace(rows=state.rows | {page})
            yield f"give back {page}", state._replace(held=state.held - {page})
        elif page not in state.pushing:
            after = state
            if mutant != "the parent completes before its children are in":
                after = admit(state, links, 1 - number)
            yield f"push {page}", after._replace(pushing=state.pushing | {page})
        else:
            after = admit(state, links, number)
            mine = after.partitions[number]
            after = change(after, number, mine._replace(ended=mine.ended | {page}))
            yield f"complete {page}", after._replace(held=state.held - {page})
    if mutant == "the parent completes before its children are in":
        for page in state.pushing:
            number, links = PAGES[page][1:]
            if page in state.partitions[number].ended:
                yield f"push {page} late", admit(state, links, 1 - number)


def _of_steward(state: State, number: int, mutant: str) -> Iterator[tuple[str, State]]:
    me = state.stewards[number]

    def become(name: str, reader: Reader, after: State = state) -> tuple[str, State]:
        stewards = [*state.stewards]
        stewards[number] = reader
        return f"steward {number} {name}", after._replace(stewards=tuple(stewards))

    if me.at != "row":
        yield become("dies", Reader())
    match me.at.split():
        case ["row"]:
            begin = "wave1 0" if mutant.startswith("counted before") else "reached 0"
            yield become("row", Reader(begin, state.layer))
        case ["reached", one]:
            partition = int(one)
            layer = state.partitions[partition].layer
            skipped = mutant == "the other partition is not asked where it is" and partition == 1
            if layer < me.row and not skipped:
                yield become("finds one behind", me._replace(at="follow 0", numbers=()))
            elif layer > me.row and not skipped:
                yield become("finds one ahead", Reader())
            elif partition == 0:
                yield become("reached 0", me._replace(at="reached 1"))
            elif mutant.startswith("counted before"):
                yield become("reached 1", me._replace(at="decide"))
            else:
                yield become("reached 1", me._replace(at="wave1 0"))
        case ["wave1", one]:
            here = state.partitions[int(one)]
            found = [-len(here.ended)]
            if mutant == "one wave":
                found.append(len(here.admitted) - beyond(here))
            later = ("decide" if mutant == "one wave" else "wave2 0") if one == "1" else "wave1 1"
            yield become(f"wave1 {one}", me._replace(at=later, numbers=(*me.numbers, *found)))
        case ["wave2", one]:
            here = state.partitions[int(one)]
            numbers = (*me.numbers, len(here.admitted) - beyond(here))
            done = "reached 0" if mutant.startswith("counted before") else "decide"
            later = "wave2 1" if one == "0" else done
            yield become(f"wave2 {one}", me._replace(at=later, numbers=numbers))
        case ["decide"]:
            if sum(me.numbers) or me.row == LAST:
                yield become("waits", Reader())
            elif mutant == "the frontier goes on before the row":
                yield become("goes on", me._replace(at="follow 0", row=me.row + 1, numbers=(1,)))
            elif state.layer == me.row or mutant == "the row is not compared when it is changed":
                after = state._replace(layer=me.row + 1)
                yield become("advances", Reader("follow 0", me.row + 1), after)
            else:
                yield become("is late", Reader())
        case ["follow", one]:
            here = state.partitions[int(one)]
            after = change(state, int(one), here._replace(layer=max(here.layer, me.row)))
            if one == "0":
                yield become("follow 0", me._replace(at="follow 1"), after)
            else:
                if me.numbers:
                    after = after._replace(layer=max(after.layer, me.row))
                yield become("follow 1", Reader(), after)


def wrong(state: State) -> str:
    """The broken promise; "" if none is."""
    # All pages that follow from the ended ones, or are to run.
    known = {*SEEDS, *(link for page in state.rows for link in PAGES[page][2])}
    for page in state.held:
        for other in known - state.rows:
            if PAGES[other][0] < PAGES[page][0]:
                return f"{page} is handed out, and {other} has not ended"
    if any(partition.layer > state.layer for partition in state.partitions):
        return "a partition is ahead of the row"
    return ""


def is_end(state: State) -> bool:
    return all(partition.admitted == partition.ended for partition in state.partitions)
