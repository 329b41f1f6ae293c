"""A small model of the protocol, for all its interleavings: two nodes of one worker each, three
pages that may change between two fetches, a database that forgets nothing and a Redis that may.

Each step is one atomic thing that a process does to Redis, to the database or to itself. What may
go wrong is counted in ``Budget``. ``mutant`` names a line of the protocol that is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

ROOT = "R"
# What a fetch may find: different follow-ups at different times.
PAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "R": (("A", "B"), ("A",)),
    "A": (("B",), ()),
    "B": ((),),
}

# A line of the protocol that is left out -> trouble enough to show what it was for.
MUTANTS: dict[str, tuple[int, int, int, int]] = {
    "complete before commit": (0, 0, 0, 1),
    "ledger not unique": (0, 0, 0, 1),
    "the loser pushes its own follow-ups": (0, 0, 0, 1),
    "the parent completes before its children are in": (0, 0, 0, 0),
    "complete is not idempotent": (0, 0, 0, 1),
    "replay moves what it read before": (0, 0, 1, 0),
    "no pulse": (0, 0, 1, 0),
    "claim without a sequence number": (0, 0, 0, 1),
    "the end is not told once": (0, 0, 0, 0),
    "release without a look at the owner": (0, 0, 0, 1),
    "a fenced generation may claim": (1, 1, 0, 0),
}


class Redis(NamedTuple):
    era: int = 0
    state: str = "doubted"  # open, doubted or closed
    ready: frozenset[str] = frozenset()
    held: frozenset[tuple[str, int, int]] = frozenset()  # page, node, generation
    seen: frozenset[str] = frozenset()
    na: int = 0
    nf: int = 0
    cursors: frozenset[str] = frozenset()  # pages of whose long list the first part is in
    lacks: frozenset[int] = frozenset()  # nodes that were told of more than Redis knows
    fenced: frozenset[tuple[int, int]] = frozenset()  # node, generation
    leases: frozenset[tuple[int, int]] = frozenset()  # generations that have not been replayed


class Database(NamedTuple):
    ledger: frozenset[tuple[str, tuple[str, ...]]] = frozenset()  # page, recorded follow-ups
    items: tuple[str, ...] = ()  # pages whose items were stored, each time
    ends: int = 0
    era: int = 0


class Node(NamedTuple):
    phase: str = "begin"  # begin, idle, claimed, fetched, committed, pushed
    generation: int = 0
    era: int = 0
    page: str = ""
    follow_ups: tuple[str, ...] = ()
    asked: bool = False  # it has claimed and got no answer


class Budget(NamedTuple):
    """How often it may still happen."""

    kills: int = 0
    expiries: int = 0  # leases of living nodes
    losses: int = 0  # Redis goes back to an earlier state
    lost_answers: int = 0


class State(NamedTuple):
    redis: Redis
    database: Database
    nodes: tuple[Node, ...]
    budget: Budget
    copy: Redis | None = None  # an earlier state of Redis
    since: frozenset[int] = frozenset()  # nodes that were told of something after it
    doomed: tuple[str, int, int] | None = None  # read by a replay of the mutant


def first(budget: Budget) -> State:
    """Nothing has happened; the task is in the database."""
    return State(Redis(), Database(), (Node(), Node()), budget)


# -- Redis: each verb is one script ----------------------------------------------------------------


def admit(redis: Redis, *pages: str) -> Redis:
    new = frozenset(pages) - redis.seen
    return redis._replace(ready=redis.ready | new, seen=redis.seen | new, na=redis.na + len(new))


def is_pending(redis: Redis, page: str) -> bool:
    return page in redis.ready or any(held[0] == page for held in redis.held)


def complete(redis: Redis, page: str, follow_ups: tuple[str, ...], mutant: str) -> Redis | None:
    """None: the cursor is elsewhere."""
    if not is_pending(redis, page):
        if mutant == "complete is not idempotent":
            return redis._replace(nf=redis.nf + 1)
        return redis
    pushed = page in redis.cursors
    if pushed != (len(follow_ups) > 1):
        return None
    redis = redis._replace(
        ready=redis.ready - {page},
        held=frozenset(held for held in redis.held if held[0] != page),
        nf=redis.nf + 1,
        cursors=redis.cursors - {page},
    )
    last = follow_ups[1:] if pushed else follow_ups
    return admit(redis, *last)


def push(redis: Redis, page: str, follow_up: str) -> Redis:
    """The first part of a long list, before its parent completes."""
    if not is_pending(redis, page) or page in redis.cursors:
        return redis
    redis = admit(redis, follow_up)
    return redis._replace(cursors=redis.cursors | {page})


def give_back(redis: Redis, held: tuple[str, int, int]) -> Redis:
    return redis._replace(ready=redis.ready | {held[0]}, held=redis.held - {held})


def replay(redis: Redis, lease: tuple[int, int]) -> Redis:
    """A generation is declared dead, and what it holds is given back."""
    for held in redis.held:
        if held[1:] == lease:
            redis = give_back(redis, held)
    return redis._replace(fenced=redis.fenced | {lease}, leases=redis.leases - {lease})


# -- what must hold --------------------------------------------------------------------------------


def closure(database: Database) -> set[str]:
    """The pages to which the recorded follow-ups lead."""
    recorded = dict(database.ledger)
    found: set[str] = set()
    waiting = [ROOT]
    while waiting:
        page = waiting.pop()
        if page not in found:
            found.add(page)
            waiting += recorded.get(page, ())
    return found


def violations(state: State) -> Iterator[str]:
    redis, database = state.redis, state.database
    if len(set(database.items)) < len(database.items):
        yield "items stored twice"
    if {page for page, _ in database.ledger} - set(database.items):
        yield "a row without its items"
    if database.ends > 1:
        yield "two ends"
    if database.ends and {page for page, _ in database.ledger} != closure(database):
        yield "an early end"
    if redis.na - redis.nf != len(redis.ready) + len(redis.held):
        yield "counters and queues disagree"
    if len({page for page, *_ in redis.held}) < len(redis.held):
        yield "two holders"


# -- steps -----------------------------------------------------------------------------------------


def steps(state: State, mutant: str = "") -> Iterator[tuple[bool, State]]:
    """(is it ordinary, or does something go wrong?, what comes of it)"""
    for number in range(len(state.nodes)):
        yield from _steps_of_node(state, number, mutant)
    yield from _steps_of_steward(state, mutant)
    yield from _troubles(state)


def _steps_of_node(state: State, number: int, mutant: str) -> Iterator[tuple[bool, State]]:
    redis, database, node = state.redis, state.database, state.nodes[number]

    def become(**changes: Any) -> tuple[Node, ...]:
        nodes = [*state.nodes]
        nodes[number] = node._replace(**changes)
        return tuple(nodes)

    def answered(after: Redis, **changes: Any) -> Iterator[tuple[bool, State]]:
        """A call of this node did something. Its answer may be lost; then it is made again."""
        told = state.since | {number} if state.copy else state.since
        yield True, state._replace(redis=after, nodes=become(**changes), since=told)
        if state.budget.lost_answers:
            left = state.budget._replace(lost_answers=state.budget.lost_answers - 1)
            nodes = become(asked=node.phase == "idle")
            yield False, state._replace(redis=after, nodes=nodes, budget=left)

    if node.phase == "begin":
        if redis.state == "open" and redis.era == database.era:
            fresh: dict[str, Any] = {"generation": node.generation + 1, "era": redis.era}
            yield (
                True,
                state._replace(
                    redis=redis._replace(
                        lacks=redis.lacks - {number},
                        leases=redis.leases | {(number, node.generation + 1)},
                    ),
                    nodes=become(phase="idle", **fresh),
                    since=state.since | {number} if state.copy else state.since,
                ),
            )
        return

    over = become(phase="begin", page="", follow_ups=(), asked=False)
    me = (number, node.generation)
    if node.phase == "claimed":
        for follow_ups in PAGES[node.page]:
            yield True, state._replace(nodes=become(phase="fetched", follow_ups=follow_ups))
        # Or it is told to stop before the fetch, below.
    if node.phase == "fetched" and mutant != "complete before commit":
        yield True, _commit(state, number, mutant)
        return

    # From here on Redis is called, and refuses who does not belong to it.
    if redis.era != node.era:
        yield True, state._replace(nodes=over)
        return
    if number in redis.lacks and mutant != "no pulse":
        yield True, state._replace(redis=redis._replace(state="doubted"), nodes=over)
        return

    if node.phase == "claimed":
        held = (node.page, *me)
        after = give_back(redis, held) if held in redis.held else redis
        if mutant == "release without a look at the owner":
            after = give_back(redis, held)
        yield from answered(after, phase="idle", page="")
    elif node.phase == "idle":
        if me in redis.fenced and mutant != "a fenced generation may claim":
            yield True, state._replace(nodes=over)
            return
        if redis.state != "open":
            yield True, state._replace(nodes=over)
            return
        unanswered = [held for held in redis.held if held[1:] == me and node.asked]
        if unanswered and mutant != "claim without a sequence number":
            page = unanswered[0][0]
            yield from answered(redis, phase="claimed", page=page, asked=False)
            return
        for page in redis.ready:
            after = redis._replace(ready=redis.ready - {page}, held=redis.held | {(page, *me)})
            yield from answered(after, phase="claimed", page=page, asked=False)
        if not redis.ready:
            yield from _end(state, mutant)
    elif mutant == "complete before commit" and node.phase == "fetched":
        done = complete(redis, node.page, node.follow_ups[-1:], "")
        if done is not None:
            yield from answered(admit(done, *node.follow_ups), phase="told")
    elif mutant == "complete before commit" and node.phase == "told":
        yield True, _commit(state, number, mutant)
    elif mutant == "the parent completes before its children are in":
        if node.phase == "committed":
            done = complete(redis, node.page, (), mutant)
            yield from answered(done or redis, phase="pushed")
        else:
            yield from answered(
                admit(redis, *node.follow_ups), phase="idle", page="", follow_ups=()
            )
    elif node.phase == "committed" and len(node.follow_ups) > 1:
        after = push(redis, node.page, node.follow_ups[0])
        yield from answered(after, phase="pushed")
    else:
        done = complete(redis, node.page, node.follow_ups, mutant)
        if done is None:
            yield True, state._replace(nodes=become(phase="committed"))
        else:
            yield from answered(done, phase="idle", page="", follow_ups=())


def _commit(state: State, number: int, mutant: str) -> State:
    """One transaction: the row with its follow-ups and the items, or nothing when it is there."""
    database, node = state.database, state.nodes[number]
    recorded = dict(database.ledger)
    follow_ups = node.follow_ups
    if node.page not in recorded or mutant == "ledger not unique":
        if node.page not in recorded:
            row = (node.page, follow_ups)
            database = database._replace(ledger=database.ledger | {row})
        database = database._replace(items=tuple(sorted((*database.items, node.page))))
    elif mutant != "the loser pushes its own follow-ups":
        follow_ups = recorded[node.page]
    nodes = [*state.nodes]
    after = Node("idle", node.generation, node.era)
    if mutant != "complete before commit":
        after = node._replace(phase="committed", follow_ups=follow_ups)
    nodes[number] = after
    return state._replace(database=database, nodes=tuple(nodes))


def _end(state: State, mutant: str) -> Iterator[tuple[bool, State]]:
    """NR is 0: the database has the last word."""
    redis, database = state.redis, state.database
    if not redis.na or redis.na != redis.nf:
        return
    if len(database.ledger) != redis.na:
        return
    if database.ends and mutant != "the end is not told once":
        return
    if database.ends < 2:
        yield True, state._replace(database=database._replace(ends=database.ends + 1))


def _steps_of_steward(state: State, mutant: str) -> Iterator[tuple[bool, State]]:
    redis, database = state.redis, state.database
    if state.doomed is not None:
        page = state.doomed[0]
        after = redis._replace(
            ready=redis.ready | {page},
            held=frozenset(held for held in redis.held if held[0] != page),
        )
        yield True, state._replace(redis=after, doomed=None)
    if redis.state == "doubted" or redis.era != database.era:
        era = database.era + 1
        yield (
            True,
            state._replace(
                redis=redis._replace(era=era, state="closed"), database=database._replace(era=era)
            ),
        )
    elif redis.state == "closed":
        yield True, state._replace(redis=_filled(state)._replace(state="open"))
    for lease in redis.leases:
        number, generation = lease
        node = state.nodes[number]
        if node.generation != generation or node.phase == "begin":  # it has died
            theirs = [held for held in redis.held if held[1:] == lease]
            if mutant == "replay moves what it read before":
                if theirs and state.doomed is None:
                    yield True, state._replace(doomed=theirs[0])
            else:
                yield True, state._replace(redis=replay(redis, lease))


def _filled(state: State) -> Redis:
    """Redis after all that the database knows was told: each row completes its request, together
    with its follow-ups."""
    redis = state.redis
    for lease in redis.leases:
        redis = replay(redis, lease)
    before = None
    while redis != before:
        before = redis
        redis = admit(redis, ROOT)
        for page, follow_ups in state.database.ledger:
            if page in redis.seen:
                redis = admit(redis, *follow_ups)
                if is_pending(redis, page):
                    redis = (
                        complete(
                            redis._replace(cursors=redis.cursors - {page}), page, follow_ups[:1], ""
                        )
                        or redis
                    )
    return redis


def _troubles(state: State) -> Iterator[tuple[bool, State]]:
    redis, budget = state.redis, state.budget
    for number, node in enumerate(state.nodes):
        if node.phase == "begin":
            continue
        nodes = [*state.nodes]
        if budget.kills:
            nodes[number] = Node("begin", node.generation)
            left = budget._replace(kills=budget.kills - 1)
            yield False, state._replace(nodes=tuple(nodes), budget=left)
        if budget.expiries:  # it goes on, and does not know
            after = replay(redis, (number, node.generation))
            left = budget._replace(expiries=budget.expiries - 1)
            yield False, state._replace(redis=after, budget=left)
    if budget.losses:
        if state.copy is None:
            if redis.state == "open":
                yield False, state._replace(copy=redis)
        elif state.copy != redis:
            left = budget._replace(losses=budget.losses - 1)
            older = state.copy._replace(lacks=state.since)
            yield False, state._replace(redis=older, copy=None, since=frozenset(), budget=left)
            yield False, state._replace(redis=Redis(), copy=None, since=frozenset(), budget=left)
