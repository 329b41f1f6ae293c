"""Random histories of a frontier on a real Redis, compared with a model of sets and dicts after
every step. MACHINE_EXAMPLES=2000 in the environment runs more, different ones each time."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from crawlframe.errors import Fenced, FrontierError
from crawlframe.frontier import Completion, FreedSlot, Frontier, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.records import GivenBack
from crawlframe.frontier.tasks import mark_of
from crawlframe.request.request import HOLD_MS, Admission, end_admission, end_rid, make_rid, rank_of
from tests.frontier.bench import dump

EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", 0))
NAMES = 9  # requests that a task may have
LAST = NAMES - 1  # the request that ends it
TASKS = (1, 2, 3)
PAGES = ["/1", "a.example", "b.example:8080", "[::1]:81"]
HOSTS = [*PAGES, *(f"/{task}/end" for task in TASKS)]
VERSIONS = ("", "1f", "2f", "2f+3", "+4")
SOON, LATE = 1, 3_600_000  # ms; a time that is due soon is due for any later step

task_ids = st.sampled_from(TASKS)
name_sets = st.lists(st.integers(0, NAMES - 1), max_size=4)
versions = st.sampled_from(VERSIONS)
some = st.lists(st.tuples(task_ids, st.integers(0, NAMES - 1)), max_size=6)
WHY = ("error", "cancelled", "excluded")  # why a request failed
delays = st.sampled_from([0, 0, 0, SOON, LATE])


@dataclass
class Task:
    concurrency: int
    page_limit: int
    state: str = "running"
    na: int = 0
    nf: int = 0
    ne: int = 0
    cancelled: int = 0
    excluded: int = 0
    duplicates: int = 0
    limited: int = 0
    # rid -> "ready", "soon", "late", "held", "parked", a generation, or "ended"
    places: dict[bytes, Any] = field(default_factory=dict)
    tries: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    versions: dict[bytes, list[str]] = field(default_factory=lambda: defaultdict(list))
    claims: dict[bytes, int] = field(default_factory=dict)  # the latest claim of each
    fetched: set[bytes] = field(default_factory=set)  # its fetch is over, if someone holds it

    @property
    def pending(self) -> dict[bytes, Any]:
        return {rid: place for rid, place in self.places.items() if place != "ended"}

    def place(self, rid: bytes, delay: int) -> None:
        if self.state == "cancelling" and delay < HOLD_MS:
            delay = 0
        self.places[rid] = {0: "ready", SOON: "soon", LATE: "late", HOLD_MS: "held"}[delay]

    def admit(self, admission: Admission, *, counting: bool) -> bool:
        if admission.rid in self.places:
            self.duplicates += counting
        elif self.page_limit and self.na >= self.page_limit:
            self.limited += counting
        else:
            self.na += 1
            self.place(admission.rid, admission.delay)
            if self.state == "cancelling" and admission.delay < HOLD_MS:
                self.cancel(admission.rid)
            return True
        return False

    def cancel(self, rid: bytes) -> None:
        self.places[rid] = "ended"
        self.tries.pop(rid, None)
        self.versions.pop(rid, None)
        self.ne += 1
        self.cancelled += 1


class Machine(RuleBasedStateMachine):
    def __init__(self, redis: Redis, partitions: int) -> None:
        super().__init__()
        self.redis: Any = redis
        self.redis.flushall()
        self.partitions = partitions
        self.frontier = Frontier(PartitionedStore(redis, partitions=partitions))
        self.tasks: dict[int, Task] = {}
        self.closed: set[int] = set()
        self.changing: set[int] = set()  # their cancel was cut short
        self.strictest = 10**9
        self.generations = [1, 2]  # alive
        self.fenced: list[int] = []
        self.sequences: dict[int, int] = defaultdict(int)
        self.starved: set[int] = set()  # got less than they asked for
        self.hops: dict[bytes, list[str]] = defaultdict(list)  # hosts a request was moved to
        everything = (self.admission(task, name) for task in TASKS for name in range(NAMES))
        self.first_hosts = {one.rid: one.host for one in everything}
        self.again: Any = None  # sends the last call again
        # Send calls that gave requests back again, at any later time.
        self.earlier: deque[Callable[[], int]] = deque(maxlen=10)

    # -- words ------------------------------------------------------------------------------------

    def admission(self, task: int, name: int, delay: int = 0) -> Admission:
        if name == LAST:
            return end_admission(task)
        rid = make_rid(task, b"%d" % name)
        rank = rank_of(name % 2, 0, name % 3)
        return Admission(rid, rank, PAGES[name % len(PAGES)], delay, b"\xff%d" % name)

    def host_of(self, rid: bytes) -> str:
        return self.hops[rid][-1] if self.hops[rid] else self.first_hosts[rid]

    def in_flight(self) -> Counter[str]:
        return Counter(
            self.host_of(rid)
            for task in self.tasks.values()
            for rid, place in task.pending.items()
            if isinstance(place, int) and rid not in task.fetched
        )

    def read(self, verb: str, *calls: Any) -> list[Any]:
        """The answers of Redis to one verb with each of the keys, or keys and arguments."""
        pipeline = self.redis.pipeline(transaction=False)
        for call in calls:
            getattr(pipeline, verb)(*(call if isinstance(call, tuple) else (call,)))
        return pipeline.execute()

    def owner(self, rid: bytes) -> str | None:
        partition = self.frontier.store.partition_of(self.host_of(rid))
        own = self.redis.hget(self.frontier.store.keys[partition]("OWN"), rid)
        return own.decode().split("|")[0] if own else None

    def told(
        self, generation: int, chosen: Sequence[tuple[int, int]], *, late: bool
    ) -> list[FreedSlot]:
        """A generation reports these fetches as finished; ``late`` also those from before."""
        told = []
        for number, name in chosen:
            one = self.admission(number, name)
            task = self.tasks.get(number)
            claim = task.claims.get(one.rid, 0) if task else 0
            told.append(FreedSlot(one.rid, one.host, claim - late))
            if task and task.places.get(one.rid) == generation and not late:
                task.fetched.add(one.rid)
        return told

    def generation(self, choice: int) -> int:
        everyone = self.generations + self.fenced
        return everyone[choice % len(everyone)]

    # -- tasks ------------------------------------------------------------------------------------

    @initialize(names=name_sets)
    def begin(self, names: list[int]) -> None:
        self.open(1, names, 2, 0)

    @rule(
        task=task_ids,
        names=name_sets,
        concurrency=st.sampled_from([1, 2, 50]),
        page_limit=st.sampled_from([0, 0, 4]),
    )
    def open(self, task: int, names: list[int], concurrency: int, page_limit: int) -> None:
        if task in self.closed:
            return  # its number never comes again
        if self.partitions > 1:
            page_limit = 0  # it is one of each partition
        seeds = [self.admission(task, name) for name in names]
        self.again = lambda: self.frontier.open_task(
            task, TaskLimits(0, 0, concurrency, page_limit), seeds
        )
        self.again()
        if task not in self.tasks:
            self.tasks[task] = Task(concurrency, page_limit)
            self.strictest = min(self.strictest, concurrency)
            for seed in seeds:
                self.tasks[task].admit(seed, counting=True)

    @rule(task=task_ids, names=name_sets, delay=delays)
    def admit(self, task: int, names: list[int], delay: int) -> None:
        admissions = [self.admission(task, name, delay) for name in names]
        if task not in self.tasks:
            if admissions:
                with pytest.raises(FrontierError):
                    self.frontier.admit(task, admissions)
            return
        new = sum(self.tasks[task].admit(a, counting=False) for a in admissions)
        assert self.frontier.admit(task, admissions) == new
        self.again = lambda: self.frontier.admit(task, admissions)

    @rule(task=task_ids)
    def pause(self, task: int) -> None:
        if task in self.tasks and self.tasks[task].state != "cancelling":
            self.tasks[task].state = "paused"
            self.again = lambda: self.frontier.pause(task)
            self.again()

    @rule(task=task_ids)
    def resume(self, task: int) -> None:
        if task in self.tasks and self.tasks[task].state != "cancelling":
            self.tasks[task].state = "running"
            self.bring_back(task, "parked")
            self.again = lambda: self.frontier.resume(task)
            self.again()

    @rule(task=task_ids)
    def unpark(self, task: int) -> None:
        parked = self.bring_back(task, "parked") if task in self.tasks else 0
        assert self.frontier.unpark(task) == parked
        self.again = lambda: self.frontier.unpark(task)

    @rule(task=task_ids, whole=st.booleans())
    def cancel(self, task: int, whole: bool) -> None:
        """``whole``: waiting requests are ended; otherwise the process dies before that."""
        if task in self.tasks:
            mine = self.tasks[task]
            mine.state = "cancelling"
            self.changing = self.changing - {task} if whole else self.changing | {task}
            self.again = lambda: self.begin_cancel(task)
            if whole:
                self.again = lambda: self.frontier.cancel(task)
                for rid, place in mine.pending.items():
                    if not isinstance(place, int):
                        self.end_or_spare(task, rid)
            self.again()

    def end_or_spare(self, task: int, rid: bytes) -> None:
        """Ends a waiting request of a cancelled task, unless it is the last request."""
        mine = self.tasks[task]
        if rid != end_rid(task):
            mine.cancel(rid)
        elif mine.places[rid] == "parked":
            mine.places[rid] = "ready"

    @rule(task=task_ids)
    def begin_last(self, task: int) -> None:
        rid, mine = end_rid(task), self.tasks.get(task)
        home = self.frontier.store.partition_of(f"/{task}/end")
        pending = mine.pending if mine else {}
        alone = [
            r for r in pending if self.frontier.store.partition_of(self.host_of(r)) == home
        ] == [rid]
        goes = alone and self.owner(rid) == "d"
        assert self.frontier.begin_last(task) == goes
        if goes and mine:
            mine.places[rid] = "ready"
        self.again = lambda: self.frontier.begin_last(task)

    def begin_cancel(self, task: int) -> None:
        for partition in range(self.partitions):
            self.frontier.store.run("state", partition, task, "cancelling", "begin")

    @rule(task=task_ids)
    def close(self, task: int) -> None:
        self.frontier.close_tasks([task])
        self.again = lambda: self.frontier.close_tasks([task])
        if task in self.tasks and not self.tasks[task].pending:
            del self.tasks[task]
            self.closed.add(task)

    def bring_back(self, task: int, *places: str) -> int:
        found = [rid for rid, place in self.tasks[task].places.items() if place in places]
        self.tasks[task].places.update(dict.fromkeys(found, "ready"))
        return len(found)

    # -- requests ---------------------------------------------------------------------------------

    @rule(
        choice=st.integers(0, 9),
        n=st.integers(0, 12),
        names=st.lists(st.integers(0, NAMES - 1), max_size=NAMES),
        late=st.booleans(),
        done=name_sets,
    )
    def fetch(self, choice: int, n: int, names: list[int], late: bool, done: list[int]) -> None:
        """Finishes some fetches; their hosts have more slots for this very claim. Then completes
        some of the held requests."""
        self.claim(choice, 12)
        self.claim(choice, n, [(task, name) for task in TASKS for name in names], late)
        self.worked(choice, done)

    @rule(choice=st.integers(0, 9), n=st.integers(1, 12))
    def claim(
        self, choice: int, n: int, chosen: Sequence[tuple[int, int]] = (), late: bool = False
    ) -> None:
        generation = self.generation(choice)
        self.sequences[generation] += 1
        sequence = self.sequences[generation]
        if generation in self.fenced:
            with pytest.raises(Fenced):
                self.frontier.claim(generation, sequence, max(n, 1))  # for 0 nothing is claimed
            return
        self.claimed(generation, sequence, n, self.told(generation, chosen, late=late))

    def claimed(self, generation: int, sequence: int, n: int, told: list[FreedSlot]) -> None:
        poorer = self.poorer(generation)
        claim = self.frontier.claim(generation, sequence, n, told)
        assert len(claim.requests) <= n
        (self.starved.add if len(claim.requests) < n else self.starved.discard)(generation)
        for task in self.tasks.values():
            for rid, place in task.places.items():
                if place == "soon" and self.owner(rid) != "d":
                    task.places[rid] = "ready"
        flying = self.in_flight()
        for request in claim.requests:
            task = self.tasks[request.task]
            assert task.places[request.rid] == "ready"
            assert task.state != "paused"
            assert claim.tasks[request.task].state == task.state
            last = request.rid == end_rid(request.task)
            hops = len(self.hops[request.rid])
            assert last or request.record.startswith(b"\xff")
            assert last or request.record.count(b"+") == hops
            assert request.host == self.host_of(request.rid)
            tries = [request.attempts, request.deliveries, request.kills]
            assert tries == task.tries[request.rid]
            if task.state == "running":
                assert flying[request.host] < task.concurrency
            task.places[request.rid] = generation
            assert request.claim == sequence
            task.claims[request.rid] = sequence
            task.fetched.discard(request.rid)
            flying[request.host] += 1
        if claim.wait != 0 and len(claim.requests) < n:
            # Nothing that could be given was kept back, but for one for each poorer generation.
            ready: Counter[str] = Counter()
            for task in self.tasks.values():
                waiting = [rid for rid, place in task.places.items() if place == "ready"]
                ready.update(self.host_of(rid) for rid in waiting if task.state != "paused")
            kept = [min(ready[host], max(0, self.strictest - flying[host])) for host in ready]
            assert sum(kept) <= poorer
            if claim.wait < 0:
                assert not any(
                    place in ("soon", "late", "held")
                    for task in self.tasks.values()
                    for place in task.places.values()
                )

        def again() -> None:
            if claim.requests:
                assert self.frontier.claim(generation, sequence, n, told).requests == claim.requests
            else:
                self.claimed(generation, sequence, n, told)

        self.again = again

    def poorer(self, generation: int) -> int:
        """Number of generations that claimed in vain and hold less than half of its requests."""
        held: Counter[tuple[int, Any]] = Counter()
        for task in self.tasks.values():
            for rid, place in task.places.items():
                held[self.frontier.store.partition_of(self.host_of(rid)), place] += 1
        return sum(
            2 * held[partition, other] < held[partition, generation] - 1
            for partition in range(self.partitions)
            for other in self.starved - {generation}
        )

    @rule(data=st.data(), failed=st.booleans(), why=st.sampled_from(WHY), delay=delays)
    def complete(self, data: st.DataObject, failed: bool, why: str, delay: int) -> None:
        """Completes any requests, whoever holds them: the ledger has them as done."""
        chosen = data.draw(st.lists(st.tuples(task_ids, st.integers(0, NAMES - 1)), max_size=4))
        completions = []
        for task, name in dict.fromkeys(chosen):
            links = [self.admission(task, link, delay) for link in data.draw(name_sets)]
            one = self.admission(task, name)
            cancelled, excluded = (failed and why == name for name in WHY[1:])
            completions.append(
                Completion(one.rid, task, one.host, failed, links, 1, 0, cancelled, excluded)
            )
        self.completed(completions)

    @rule(choice=st.integers(0, 9), follow_ups=name_sets, delay=delays)
    def work(self, choice: int, follow_ups: list[int], delay: int) -> None:
        """Completes all requests that a generation holds."""
        self.worked(choice, range(NAMES), follow_ups, delay)

    def worked(
        self, choice: int, names: Sequence[int], follow_ups: Sequence[int] = (), delay: int = 0
    ) -> None:
        generation = self.generation(choice)
        completions = []
        for number, task in self.tasks.items():
            chosen = {self.admission(number, name).rid for name in names}
            for rid, place in task.pending.items():
                if place == generation and rid in chosen:
                    links = [self.admission(number, link, delay) for link in follow_ups]
                    host = self.host_of(rid)
                    completions.append(Completion(rid, number, host, False, links))
        self.completed(completions)

    def completed(self, completions: list[Completion]) -> None:
        done = set()
        parts = dict(self.frontier.store.split(completions, lambda completion: completion.host))
        for part in parts.values():
            begun = {
                c.rid for c in part if c.task in self.tasks and c.rid in self.tasks[c.task].pending
            }
            for completion in part:
                if completion.rid in begun:
                    task = self.tasks[completion.task]
                    task.nf += not completion.failed
                    task.ne += completion.failed
                    task.cancelled += completion.cancelled
                    task.excluded += completion.excluded
                    task.duplicates += completion.duplicates
                    task.places[completion.rid] = "ended"
                    task.tries.pop(completion.rid, None)
                    task.versions.pop(completion.rid, None)
                    done.add(completion.task)
                    for link in completion.follow_ups:
                        task.admit(link, counting=True)
        ended = {number for number in done if not self.tasks[number].pending}
        if self.partitions == 1:
            ended |= {number for number in done if self.may_be_last(number)}
        assert self.frontier.complete(completions) == ended

        def again() -> None:
            assert self.frontier.complete(completions) == set()

        # A follow-up that the same list calls done: the ledger never says that, and sent again it
        # would be done indeed.
        odd = any(c.task in self.tasks and c.rid in self.tasks[c.task].pending for c in completions)
        self.again = None if odd else again

    def may_be_last(self, task: int) -> bool:
        places = self.tasks[task].pending.values()
        return len(places) == 1 and not {"soon", "late", "held"}.isdisjoint(places)

    @rule(data=st.data(), choice=st.integers(0, 9), delay=st.sampled_from([0, SOON, LATE]))
    def retry(self, data: st.DataObject, choice: int, delay: int) -> None:
        def model(task: Task, rid: bytes) -> None:
            task.tries[rid][0] += 1
            late = delay == LATE and task.state != "cancelling"
            task.places[rid] = "late" if late else "soon"

        self.give("retry", data, choice, delay, model)

    @rule(data=st.data(), choice=st.integers(0, 9), delay=st.sampled_from([0, SOON, LATE]))
    def defer(self, data: st.DataObject, choice: int, delay: int) -> None:
        def model(task: Task, rid: bytes) -> None:
            late = delay == LATE and task.state != "cancelling"
            task.places[rid] = "late" if late else "soon"

        self.give("defer", data, choice, delay, model)

    @rule(data=st.data(), choice=st.integers(0, 9), penalty=st.integers(0, 1))
    def release(self, data: st.DataObject, choice: int, penalty: int) -> None:
        def model(task: Task, rid: bytes) -> None:
            task.tries[rid][1] += penalty
            task.tries[rid][2] += penalty
            task.places[rid] = "ready"

        self.give("release", data, choice, penalty, model)

    @rule(
        data=st.data(),
        choice=st.integers(0, 9),
        page=st.sampled_from(PAGES),
        late=st.booleans(),
    )
    def redirect(
        self, data: st.DataObject, choice: int, page: str, late: bool, chosen: Any = some
    ) -> None:
        """Moves requests to another host of their partition; ``late``: held by earlier claims."""
        generation = self.generation(choice)
        requests, moved = [], []
        for number, name in dict.fromkeys(data.draw(chosen)):
            one = self.admission(number, name)
            if name != LAST and self.frontier.may_move(one.host, page):
                record = one.record + b"+" * (len(self.hops[one.rid]) + 1)
                given = self.given_back(number, one, (page, record))
                requests.append(given._replace(claim=given.claim - late))
                held = number in self.tasks and self.tasks[number].places.get(one.rid) == generation
                if held and not late:
                    moved.append((self.tasks[number], one.rid))
        assert self.frontier.redirect(generation, requests) == len(moved)
        for task, rid in moved:
            task.places[rid] = "ready"
            self.hops[rid].append(page)
        rids = {rid for _, rid in moved}
        self.gave(lambda some: self.frontier.redirect(generation, some), requests, rids)

    def given_back(self, task: int, one: Admission, value: Any) -> GivenBack:
        claims = self.tasks[task].claims if task in self.tasks else {}
        return GivenBack(one.rid, one.host, claims.get(one.rid, 0), value)

    def gave(
        self, give: Callable[[list[GivenBack]], int], requests: list[GivenBack], rids: set[bytes]
    ) -> None:
        """Those with ``rids`` were held, and are left alone from now on."""

        def again() -> None:
            assert give(requests) == 0

        self.again = again
        held = [one for one in requests if one.rid in rids]
        if held:
            self.earlier.append(lambda: give(held))

    @precondition(lambda self: self.earlier)
    @rule(choice=st.integers(0, 9))
    def come_late(self, choice: int) -> None:
        """A call that gave requests back comes once more, whoever holds them now."""
        assert self.earlier[choice % len(self.earlier)]() == 0
        self.again = None

    @rule(data=st.data(), choice=st.integers(0, 9), page=st.sampled_from(PAGES))
    def hop(self, data: st.DataObject, choice: int, page: str) -> None:
        """Redirects every request that a node gets."""
        self.claim(choice, 12)
        everyone = st.just([(task, name) for task in TASKS for name in range(NAMES)])
        self.redirect(data, choice, page, False, everyone)

    @rule(data=st.data(), choice=st.integers(0, 9), version=versions)
    def park(self, data: st.DataObject, choice: int, version: str, chosen: Any = some) -> None:
        def model(task: Task, rid: bytes) -> None:
            if task.state == "cancelling":
                task.places[rid] = "ready"
                return
            task.places[rid] = "parked"
            tried = task.versions[rid]
            if not version:
                tried.clear()
            elif version not in tried:
                tried.append(version)

        self.give("park", data, choice, "why", model, version, chosen=chosen)

    @rule(
        data=st.data(),
        choice=st.integers(0, 9),
        older=versions,
        newer=versions,
        limit=st.integers(1, 9),
    )
    def skew(self, data: st.DataObject, choice: int, older: str, newer: str, limit: int) -> None:
        """A node claims requests without their code, and another node checks for the code."""
        self.claim(choice, 12)
        everyone = st.just([(task, name) for task in TASKS for name in range(NAMES)])
        self.park(data, choice, older, everyone)
        self.retake(newer, limit)

    @rule(version=versions, limit=st.integers(0, 6))
    def retake(self, version: str, limit: int) -> None:
        untried = [
            (task, rid)
            for task in self.tasks.values()
            for rid, place in task.places.items()
            if place == "parked" and task.state == "running" and version
            if task.versions[rid] and version not in task.versions[rid]
        ]
        assert self.frontier.retake(version, limit) == min(limit, len(untried))
        for task, rid in untried:
            if self.owner(rid) is None:
                task.places[rid] = "ready"
        moved = min(limit, len(untried))
        assert sum(task.places[rid] == "ready" for task, rid in untried) == moved
        self.again = None  # each call is new; repeated calls are tested in test_retake

    def give(
        self,
        verb: str,
        data: st.DataObject,
        choice: int,
        value: Any,
        model: Any,
        *more: Any,
        chosen: Any = some,
    ) -> None:
        generation = self.generation(choice)
        requests = []
        held = set()
        for number, name in dict.fromkeys(data.draw(chosen)):
            one = self.admission(number, name)
            requests.append(self.given_back(number, one, value))
            if number in self.tasks and self.tasks[number].places.get(one.rid) == generation:
                model(self.tasks[number], one.rid)
                held.add(one.rid)
        give = getattr(self.frontier, verb)
        assert give(generation, requests, *more) == len(held)
        self.gave(lambda some: give(generation, some, *more), requests, held)

    @rule(choice=st.integers(0, 9))
    def replay(self, choice: int) -> None:
        generation = self.generation(choice)
        held = 0
        for task in self.tasks.values():
            for rid, place in task.places.items():
                if place == generation:
                    task.places[rid] = "ready"
                    task.tries[rid][1] += 1
                    held += 1
        assert self.frontier.leases.replay(generation) == held
        self.again = lambda: self.frontier.leases.replay(generation)
        if generation in self.generations:
            self.generations.remove(generation)
            self.fenced.append(generation)
            self.generations.append(max(self.generations + self.fenced) + 1)

    @precondition(lambda self: self.again is not None)
    @rule()
    def send_again(self) -> None:
        self.again()

    # -- invariants -------------------------------------------------------------------------------

    @invariant()
    def counters_are_queues(self) -> None:
        assert self.frontier.audit() == []

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        assert self.frontier.open_tasks() == sorted(self.tasks)
        pending = set()
        for number, task in self.tasks.items():
            counts = self.frontier.counts(number)
            assert counts is not None
            pending |= set(task.pending)
            places = list(task.pending.values())
            assert counts.state == ("changing" if number in self.changing else task.state)
            assert (counts.na, counts.nf, counts.ne) == (task.na, task.nf, task.ne)
            assert counts.cancelled == task.cancelled
            assert counts.excluded == task.excluded
            assert counts.parked == places.count("parked")
            assert counts.in_progress == sum(isinstance(place, int) for place in places)
            assert counts.delayed == sum(place in ("soon", "late", "held") for place in places)
            assert counts.nr == len(places)
            if self.partitions == 1:
                assert (counts.duplicates, counts.limited) == (task.duplicates, task.limited)
            parked = {rid for rid, place in task.pending.items() if place == "parked"}
            assert set(self.frontier.parked(number)) == parked
        found = self.read("hkeys", *(keys("REQ") for keys in self.frontier.store.keys))
        kept = [rid for rids in found for rid in rids]
        assert len(kept) == len(set(kept))
        assert set(kept) == pending

    @invariant()
    def everyone_holds_what_the_model_says(self) -> None:
        held: dict[int, set[bytes]] = defaultdict(set)
        for task in self.tasks.values():
            for rid, place in task.pending.items():
                if isinstance(place, int):
                    held[place].add(rid)
        places = [
            (one, k) for one in self.generations + self.fenced for k in self.frontier.store.keys
        ]
        kept: dict[int, set[bytes]] = defaultdict(set)
        answers = self.read("smembers", *(keys("INPROGRESS", one) for one, keys in places))
        for (generation, _), rids in zip(places, answers, strict=True):
            kept[generation] |= rids
        assert all(kept[one] == held[one] for one in {*kept, *held})

    @invariant()
    def a_slot_of_its_host_is_taken_by_each_fetch(self) -> None:
        store = self.frontier.store
        names = [store.keys[store.partition_of(host)]("HOST", host) for host in HOSTS]
        taken = self.read("hget", *((name, "a") for name in names))
        flying = self.in_flight()
        assert [int(one or 0) for one in taken] == [flying[host] for host in HOSTS]

    @invariant()
    def tries_are_kept(self) -> None:
        expected = {}
        for task in self.tasks.values():
            for rid in task.pending:
                attempts, deliveries, kills = task.tries[rid]
                tried = ".".join(mark_of(version) for version in task.versions[rid])
                if attempts or deliveries or tried:
                    rest = [tried] if tried else []
                    expected["TRIES", rid] = ",".join([f"{attempts},{deliveries}", *rest]).encode()
                if kills:
                    expected["KILLS", rid] = str(kills).encode()
        places = [(name, keys) for name in ("TRIES", "KILLS") for keys in self.frontier.store.keys]
        answers = self.read("hgetall", *(keys(name) for name, keys in places))
        assert expected == {
            (name, rid): row
            for (name, _), rows in zip(places, answers, strict=True)
            for rid, row in rows.items()
        }

    @invariant()
    def what_was_admitted_is_known(self) -> None:
        names = range(NAMES)
        groups = [(t, [self.admission(t, name) for name in names]) for t in self.tasks]
        for (number, admissions), known in zip(groups, self.frontier.known(groups), strict=True):
            places = self.tasks[number].places
            assert known == [admission.rid in places for admission in admissions]

    def teardown(self) -> None:
        """The end of every history: all tasks end, and nothing is left in Redis."""
        for generation in list(self.generations):
            self.frontier.leases.replay(generation)
        left: set[bytes] = set()
        for number, task in self.tasks.items():
            self.frontier.unpark(number)
            self.begin_cancel(number)
            if number == TASKS[0]:  # the others are ended by whoever claims them
                self.frontier.cancel(number)
                left.update({end_rid(number)} & {*task.pending})
            else:
                self.frontier._advance(number, math.inf)
                left.update(task.pending)
        last = max(self.generations + self.fenced) + 1
        for sequence in range(200):
            claim = self.frontier.claim(last, sequence, 7)
            got = {request.rid for request in claim.requests}
            assert got <= left
            left -= got
            self.frontier.complete(
                [Completion(r.rid, r.task, r.host, False) for r in claim.requests]
            )
            if not got and not any([*map(self.frontier.begin_last, self.tasks)]):
                break
        assert not left
        for number in self.tasks:
            counts = self.frontier.counts(number)
            assert counts is not None
            assert counts.nr == 0
            self.frontier.close_tasks([number])
        self.frontier.leases.replay(last)
        assert {key.split(":")[-1] for key in dump(self.redis)} <= {"fenced"}


@pytest.mark.timeout(0 if EXAMPLES else 120)
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("examples", [30, pytest.param(60, marks=pytest.mark.long)])
def test_random_lives(redis_client: Redis, partitions: int, examples: int) -> None:
    make: Any = partial(Machine, redis_client, partitions)
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=40,
            derandomize=not EXAMPLES,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
