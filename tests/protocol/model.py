"""A small model of the protocol, for all its interleavings: two nodes of one worker each, three
pages that may change between two fetches, a database that forgets nothing and a Redis that may.

Each step is one atomic action of a process on Redis, on the database or on itself. ``Budget``
counts the possible faults. ``mutant`` names a line of the protocol that is left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

ROOT = "R"
LAST = "Z"  # the last request of a task whose spider has the last word
# Results of a fetch: different follow-ups at different times.
PAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "R": (("A", "B"), ("A",)),
    "A": (("B",), ()),
    "B": ((),),
    "Z": ((),),
}

# A line of the protocol that is left out -> the trouble needed to show its purpose.
MUTANTS: dict[str, tuple[int, ...]] = {
    "complete before commit": (0, 0, 0, 1),
    "ledger not unique": (0, 0, 0, 1),
    "the loser pushes its own follow-ups": (0, 0, 0, 1),
    "the parent completes before its children are in": (0, 0, 0, 0),
    "complete is not idempotent": (0, 0, 0, 1),
    "replay moves what it read before": (0, 0, 1, 0),
    "no call log": (0, 0, 1, 0),
    "claim without a sequence number": (0, 0, 0, 1),
    "the end is not told once": (0, 0, 0, 0),
    "release without a look at the owner": (0, 0, 0, 1),
    "a fenced generation may claim": (1, 1, 0, 0),
    "a lease that is over is forgotten": (1, 1, 0, 0),
    "a parked request is forgotten when the task is resumed": (0, 0, 0, 0, 1),
    "park without a look at the owner": (0, 0, 0, 1, 2),
    "redirect without a look at the owner": (0, 1, 0, 0, 0, 0, 1),
    "a cancelled task waits for all its rows": (0, 0, 0, 0, 0, 1),
    "a cancelled task has all rows when Redis says so": (1, 0, 0, 0, 0, 1),
}

# The same, for the lines that hold the last request back.
MUTANTS_OF_LAST: dict[str, tuple[int, ...]] = {
    "the last request goes at any time": (0, 0, 0, 0),
    "a cancel ends the last request": (0, 0, 0, 0, 0, 1),
    "the last request is forgotten when Redis is filled": (0, 0, 1, 0),
}

STEWARD = -1  # takes the steps of no node: also the operator's and fate's


class Redis(NamedTuple):
    era: int = 0
    state: str = "doubted"  # open, doubted or closed
    ready: frozenset[str] = frozenset()
    held: frozenset[tuple[str, int, int]] = frozenset()  # page, node, generation
    seen: frozenset[str] = frozenset()
    parked: frozenset[str] = frozenset()
    tried: frozenset[tuple[str, int]] = frozenset()  # page, node whose code cannot run it
    moved: frozenset[str] = frozenset()  # pages that wait for the target of their redirect
    na: int = 0
    nf: int = 0
    cancelling: bool = False
    cancelled: int = 0  # ended without a row
    cursors: frozenset[str] = frozenset()  # pages of whose long list the first part is in
    lacks: frozenset[int] = frozenset()  # nodes that know of more than Redis does
    fenced: frozenset[tuple[int, int]] = frozenset()  # node, generation
    leases: frozenset[tuple[int, int]] = frozenset()  # generations that have not been replayed
    over: frozenset[tuple[int, int]] = frozenset()  # leases of living nodes whose time is over
    waits: bool = False  # the last request is held back


class Database(NamedTuple):
    ledger: frozenset[tuple[str, tuple[str, ...]]] = frozenset()  # page, recorded follow-ups
    items: tuple[str, ...] = ()  # pages whose items were stored, each time
    ends: int = 0
    era: int = 0
    cancelling: bool = False
    cancelled: frozenset[str] = frozenset()  # pages whose row says only that
    settled: bool = True  # no row is to be written any more
    last: bool = False  # the task has a last request


class Node(NamedTuple):
    phase: str = "begin"  # begin, idle, claimed, fetched, committed, pushed
    generation: int = 0
    era: int = 0
    page: str = ""
    follow_ups: tuple[str, ...] = ()
    asked: bool = False  # it has claimed and got no answer


class Budget(NamedTuple):
    """The number of times that each fault may still happen."""

    kills: int = 0
    expiries: int = 0  # Redis is away for longer than leases last
    losses: int = 0  # Redis goes back to an earlier state
    lost_answers: int = 0
    parkings: int = 0  # a node lacks the code for its claim
    cancels: int = 0
    redirects: int = 0  # a page is found to have moved


class State(NamedTuple):
    redis: Redis
    database: Database
    nodes: tuple[Node, ...]
    budget: Budget
    copy: Redis | None = None  # an earlier state of Redis
    since: frozenset[int] = frozenset()  # nodes that learned something after it
    doomed: tuple[str, int, int] | None = None  # read by a replay of the mutant


class Step(NamedTuple):
    """``ordinary``: nothing goes wrong. ``state``: the result."""

    name: str
    actor: int  # number of the node, or STEWARD
    ordinary: bool
    state: State


def first(budget: Budget, last: bool = False) -> State:
    """The first state: nothing has happened; the task is in the database."""
    return State(Redis(), Database(last=last), (Node(), Node()), budget)


# -- Redis: each verb is one script ----------------------------------------------------------------


def admit(redis: Redis, *pages: str) -> Redis:
    new = frozenset(pages) - redis.seen
    redis = redis._replace(seen=redis.seen | new, na=redis.na + len(new))
    if LAST in new:
        redis = redis._replace(waits=True)
        new -= {LAST}
    if redis.cancelling:
        return redis._replace(cancelled=redis.cancelled + len(new))
    return redis._replace(ready=redis.ready | new)


def sweep(redis: Redis, mutant: str = "") -> Redis:
    """Ends the waiting requests of a cancelled task, except its last request; held ones
    continue."""
    gone = redis.ready | redis.parked
    if mutant == "a cancel ends the last request" and redis.waits:
        redis = redis._replace(waits=False, cancelled=redis.cancelled + 1)
    spared = gone & {LAST}
    gone -= spared
    return redis._replace(
        cancelling=True,
        ready=spared,
        parked=frozenset(),
        tried=frozenset(tried for tried in redis.tried if tried[0] not in gone),
        moved=redis.moved - gone,
        cursors=redis.cursors - gone,
        cancelled=redis.cancelled + len(gone),
    )


def is_pending(redis: Redis, page: str) -> bool:
    if page == LAST and redis.waits:
        return True
    return page in redis.ready | redis.parked or any(held[0] == page for held in redis.held)


def complete(
    redis: Redis, page: str, follow_ups: tuple[str, ...], mutant: str, cancelled: bool = False
) -> Redis | None:
    """None: the cursor is elsewhere. ``cancelled``: its row says only that."""
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
        parked=redis.parked - {page},
        tried=frozenset(tried for tried in redis.tried if tried[0] != page),
        moved=redis.moved - {page},
        nf=redis.nf + (not cancelled),
        cancelled=redis.cancelled + cancelled,
        cursors=redis.cursors - {page},
        waits=redis.waits and page != LAST,
    )
    last = follow_ups[1:] if pushed else follow_ups
    return admit(redis, *last)


def push(redis: Redis, page: str, follow_up: str) -> Redis:
    """Pushes the first part of a long list, before its parent completes."""
    if page in redis.cursors:
        return redis
    redis = admit(redis, follow_up)
    tried = redis.tried
    if page not in redis.parked:
        tried = frozenset(mark for mark in tried if mark[0] != page)
    return redis._replace(cursors=redis.cursors | {page}, tried=tried)


def give_back(redis: Redis, held: tuple[str, int, int]) -> Redis:
    return redis._replace(ready=redis.ready | {held[0]}, held=redis.held - {held})


def redirect(redis: Redis, held: tuple[str, int, int]) -> Redis:
    """It continues at another host, once: its record says so from then on."""
    if held[0] in redis.moved:
        return redis
    return give_back(redis, held)._replace(moved=redis.moved | {held[0]})


def park(redis: Redis, held: tuple[str, int, int]) -> Redis:
    """Parks it until a node with other code retakes it, or the task is resumed."""
    if redis.cancelling:
        return give_back(redis, held)
    return redis._replace(
        parked=redis.parked | {held[0]},
        tried=redis.tried | {held[:2]},
        held=redis.held - {held},
    )


def bring_back(redis: Redis, pages: frozenset[str]) -> Redis:
    return redis._replace(ready=redis.ready | pages, parked=redis.parked - pages)


def replay(redis: Redis, lease: tuple[int, int]) -> Redis:
    """Declares a generation dead, and releases its requests."""
    for held in redis.held:
        if held[1:] == lease:
            redis = give_back(redis, held)
    return redis._replace(
        fenced=redis.fenced | {lease}, leases=redis.leases - {lease}, over=redis.over - {lease}
    )


# -- steps -----------------------------------------------------------------------------------------


def steps(state: State, mutant: str = "") -> Iterator[Step]:
    """All steps that may happen next."""
    for number in range(len(state.nodes)):
        yield from _steps_of_node(state, number, mutant)
    yield from _steps_of_steward(state, mutant)
    yield from _troubles(state, mutant)


def _steps_of_node(state: State, number: int, mutant: str) -> Iterator[Step]:
    redis, node = state.redis, state.nodes[number]
    told = state.since | {number} if state.copy else state.since

    def become(**changes: Any) -> tuple[Node, ...]:
        nodes = [*state.nodes]
        nodes[number] = node._replace(**changes)
        return tuple(nodes)

    def step(name: str, after: State) -> Step:
        return Step(name, number, True, after)

    def answered(
        name: str, after: Redis, budget: Budget = state.budget, **changes: Any
    ) -> Iterator[Step]:
        """A call of this node was executed. Its answer may be lost; then it is repeated."""
        done = state._replace(redis=after, budget=budget)
        yield Step(
            name,
            number,
            budget == state.budget,
            done._replace(nodes=become(**changes), since=told),
        )
        if budget.lost_answers:
            left = budget._replace(lost_answers=budget.lost_answers - 1)
            nodes = become(asked=node.asked or name == "claim")
            yield Step(name, number, False, done._replace(nodes=nodes, budget=left))

    if node.phase == "begin":
        # Nodes are alike: number 0 starts first.
        if redis.state == "open" and (number == 0 or state.nodes[number - 1].generation):
            lease = (number, node.generation + 1)
            after = redis._replace(lacks=redis.lacks - {number}, leases=redis.leases | {lease})
            nodes = become(phase="idle", generation=lease[1], era=redis.era)
            yield step("begin", state._replace(redis=after, nodes=nodes, since=told))
        return

    over = become(phase="begin", page="", follow_ups=(), asked=False)
    me = (number, node.generation)
    if node.phase == "claimed":
        for follow_ups in PAGES[node.page]:
            nodes = become(phase="fetched", follow_ups=follow_ups)
            yield step("fetch", state._replace(nodes=nodes))
        # Or it is asked to stop before the fetch, or lacks the code, below.
    if node.phase == "fetched" and mutant != "complete before commit":
        yield step("commit", _commit(state, number, mutant))
        return

    # From here on Redis is called, and refuses nodes that do not belong to it.
    call = {"claimed": "release", "idle": "claim", "committed": "push"}.get(node.phase, "complete")
    if call == "push" and len(node.follow_ups) < 2:
        call = "complete"
    if redis.era != node.era:
        yield step(call, state._replace(nodes=over))
        return
    if number in redis.lacks and mutant != "no call log":
        yield step(call, state._replace(redis=redis._replace(state="doubted"), nodes=over))
        return

    if me in redis.over and redis.state == "open":
        after = redis._replace(over=redis.over - {me})
        yield step("renew", state._replace(redis=after, since=told))
    if node.phase == "claimed":
        held = (node.page, *me)
        after = give_back(redis, held) if held in redis.held else redis
        if mutant == "release without a look at the owner":
            after = give_back(redis, held)
        yield from answered("release", after, phase="idle", page="")
        if state.budget.parkings:
            mine = held in redis.held or mutant == "park without a look at the owner"
            after = park(redis, held) if mine else redis
            left = state.budget._replace(parkings=state.budget.parkings - 1)
            yield from answered("park", after, left, phase="idle", page="")
        # With a record that says so it continues to the callback, unless the node holds it no more.
        if state.budget.redirects and not (held in redis.held and node.page in redis.moved):
            mine = held in redis.held or mutant == "redirect without a look at the owner"
            after = redirect(redis, held) if mine else redis
            left = state.budget._replace(redirects=state.budget.redirects - 1)
            yield from answered("redirect", after, left, phase="idle", page="")
    elif node.phase == "idle":
        untried = frozenset(page for page in redis.parked if (page, number) not in redis.tried)
        if redis.parked:
            yield from answered("retake", bring_back(redis, untried))
        if me in redis.fenced and mutant != "a fenced generation may claim":
            yield step("claim", state._replace(nodes=over))
            return
        if redis.state != "open":
            yield step("claim", state._replace(nodes=over))
            return
        unanswered = [held for held in redis.held if held[1:] == me and node.asked]
        if unanswered and mutant != "claim without a sequence number":
            page = unanswered[0][0]
            yield from answered("claim", redis, phase="claimed", page=page, asked=False)
            return
        for page in redis.ready:
            after = redis._replace(ready=redis.ready - {page}, held=redis.held | {(page, *me)})
            yield from answered("claim", after, phase="claimed", page=page, asked=False)
        if not redis.ready or node.asked:  # others have ended its requests meanwhile
            yield step("claim", state._replace(nodes=become(asked=False)))
        if redis.na and redis.na == redis.nf + redis.cancelled:
            yield step("finish", _end(state, mutant))
    elif mutant == "complete before commit" and node.phase == "fetched":
        done = complete(redis, node.page, node.follow_ups[-1:], "")
        if done is not None:
            yield from answered("complete", admit(done, *node.follow_ups), phase="told")
    elif mutant == "complete before commit" and node.phase == "told":
        yield step("commit", _commit(state, number, mutant))
    elif mutant == "the parent completes before its children are in":
        if node.phase == "committed":
            done = complete(redis, node.page, (), mutant)
            yield from answered("complete", done or redis, phase="pushed")
        else:
            after = admit(redis, *node.follow_ups)
            yield from answered("push", after, phase="idle", page="", follow_ups=())
    elif call == "push" and is_pending(redis, node.page):
        yield from answered("push", push(redis, node.page, node.follow_ups[0]), phase="pushed")
    elif call == "push":  # another call has completed it
        yield from answered("push", redis, phase="idle", page="", follow_ups=())
    else:
        row = node.page in state.database.cancelled
        done = complete(redis, node.page, node.follow_ups, mutant, row)
        if done is None:
            yield step("complete", state._replace(nodes=become(phase="committed"), since=told))
        else:
            yield from answered("complete", done, phase="idle", page="", follow_ups=())


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


def _end(state: State, mutant: str) -> State:
    """NR is 0: the database decides. For a cancelled task, rows of requests that were not fetched
    may be missing."""
    database, redis = state.database, state.redis
    missing = redis.na - len(database.ledger)
    cancelled = redis.cancelled if database.cancelling else 0
    if mutant == "a cancelled task waits for all its rows":
        cancelled = 0
    if (missing > cancelled if cancelled else missing) or database.ends > 1:
        return state
    if database.ends and mutant != "the end is not told once":
        return state
    after = database._replace(ends=database.ends + 1, settled=not cancelled)
    return state._replace(database=after)


@cache
def closure(database: Database) -> frozenset[str]:
    """The pages to which the recorded follow-ups lead."""
    recorded = dict(database.ledger)
    found: set[str] = set()
    waiting = [ROOT, LAST] if database.last else [ROOT]
    while waiting:
        page = waiting.pop()
        if page not in found:
            found.add(page)
            waiting += recorded.get(page, ())
    return frozenset(found)


def _settle(state: State, mutant: str) -> Iterator[Database]:
    """A row for one of the pages that have none, or, if all have one, the end of the settlement."""
    database = state.database
    missing = sorted(closure(database) - {page for page, _ in database.ledger})
    if mutant == "a cancelled task has all rows when Redis says so":
        missing = missing[: max(0, state.redis.na - len(database.ledger))]
    for page in missing:
        yield database._replace(
            ledger=database.ledger | {(page, ())}, cancelled=database.cancelled | {page}
        )
    if not missing:
        yield database._replace(settled=True)


def _steps_of_steward(state: State, mutant: str) -> Iterator[Step]:
    redis, database = state.redis, state.database

    def step(name: str, after: Redis, **changes: Any) -> Step:
        return Step(name, STEWARD, True, state._replace(redis=after, **changes))

    if state.doomed is not None:
        page = state.doomed[0]
        after = redis._replace(
            ready=redis.ready | {page},
            held=frozenset(held for held in redis.held if held[0] != page),
        )
        yield step("replay", after, doomed=None)
    if redis.state == "doubted" or redis.era != database.era:
        era = database.era + 1
        after = redis._replace(era=era, state="closed")
        yield step("close", after, database=database._replace(era=era))
    elif redis.state == "closed":
        yield step("fill", _filled(state, mutant)._replace(state="open"))
    alone = redis.na - redis.nf - redis.cancelled == 1
    if redis.waits and (alone or mutant == "the last request goes at any time"):
        yield step("last", redis._replace(waits=False, ready=redis.ready | {LAST}))
    if state.budget.cancels and not database.ends:
        left = state.budget._replace(cancels=state.budget.cancels - 1)
        yield step("cancel", redis, database=database._replace(cancelling=True), budget=left)
    known = redis.na and redis.state != "closed"
    if database.cancelling and not database.ends and known and sweep(redis, mutant) != redis:
        yield step("sweep", sweep(redis, mutant))
    if not database.settled:
        for written in _settle(state, mutant):
            yield step("settle", redis, database=written)
    if redis.parked and not redis.cancelling:
        after = bring_back(redis, redis.parked)
        if mutant == "a parked request is forgotten when the task is resumed":
            after = redis._replace(parked=frozenset())
        yield step("resume", after)
    for lease in redis.leases:
        number, generation = lease
        node = state.nodes[number]
        dead = node.generation != generation or node.phase == "begin"
        if dead or lease in redis.over:
            theirs = [held for held in redis.held if held[1:] == lease]
            if mutant == "replay moves what it read before":
                if theirs and state.doomed is None:
                    yield step("replay", redis, doomed=theirs[0])
            else:
                yield step("replay", replay(redis, lease))


def _filled(state: State, mutant: str = "") -> Redis:
    """Redis after everything in the database was applied: each row completes its request, together
    with its follow-ups. For an ended task, only if Redis still knows it."""
    redis, database = state.redis, state.database
    for lease in redis.leases:
        redis = replay(redis, lease)
    if database.ends and not redis.seen:
        return redis
    before = None
    while redis != before:
        before = redis
        redis = admit(redis, ROOT)
        if database.last and mutant != "the last request is forgotten when Redis is filled":
            redis = admit(redis, LAST)
        for page, follow_ups in database.ledger:
            if page in redis.seen:
                redis = admit(redis, *follow_ups)
                if is_pending(redis, page):
                    whole = redis._replace(cursors=redis.cursors - {page})
                    row = page in database.cancelled
                    redis = complete(whole, page, follow_ups[:1], "", row) or redis
    # Waiting requests of a task that Redis knows to be cancelled are swept later.
    return sweep(redis) if database.cancelling and not redis.cancelling else redis


def _troubles(state: State, mutant: str) -> Iterator[Step]:
    redis, budget = state.redis, state.budget

    def step(name: str, actor: int, after: Redis, budget: Budget = budget, **changes: Any) -> Step:
        return Step(name, actor, False, state._replace(redis=after, budget=budget, **changes))

    for number, node in enumerate(state.nodes):
        if node.phase == "begin":
            continue
        if budget.kills:
            nodes = [*state.nodes]
            nodes[number] = Node("begin", node.generation)
            after = redis._replace(over=redis.over - {(number, node.generation)})
            left = budget._replace(kills=budget.kills - 1)
            yield step("kill", number, after, left, nodes=tuple(nodes))
    living = {(n, node.generation) for n, node in enumerate(state.nodes) if node.phase != "begin"}
    if budget.expiries and (living & redis.leases) - redis.over:
        after = redis._replace(over=redis.leases & living)
        if mutant == "a lease that is over is forgotten":
            after = redis._replace(leases=frozenset())
        left = budget._replace(expiries=budget.expiries - 1)
        yield step("lapse", STEWARD, after, left)
    if budget.losses:
        if state.copy is None:
            if redis.state == "open":
                yield step("copy", STEWARD, redis, copy=redis)
        elif state.copy != redis:
            left = budget._replace(losses=budget.losses - 1)
            older = state.copy._replace(lacks=state.copy.lacks | state.since)
            gone: dict[str, Any] = {"copy": None, "since": frozenset()}
            yield step("back", STEWARD, older, left, **gone)
            yield step("empty", STEWARD, Redis(), left, **gone)
