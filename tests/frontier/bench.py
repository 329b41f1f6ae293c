"""Bench: a frontier with shorthands for tests, and the state of Redis as one value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from redis import Redis

from crawlframe.frontier import Claim, Claimed, Completion, Counts, FreedSlot, Frontier, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.records import SENT, Signal
from crawlframe.frontier.cluster.leases import Leases
from crawlframe.request.request import Admission, make_rid, rank_of

NODE = 1  # the generation that claims when a test names none


def seeds(few: int, many: int) -> list[Any]:
    """Parameters of a random test: few seeds, and in its long version many."""
    return [*range(few), *(pytest.param(n, marks=pytest.mark.long) for n in range(few, many))]


DUMP = """
local read = {
  string = {'GET'}, hash = {'HGETALL'}, set = {'SMEMBERS'}, list = {'LRANGE', 0, -1},
  zset = {'ZRANGE', 0, -1, 'WITHSCORES'},
}
local rows = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then
    local kind = redis.call('TYPE', key).ok
    rows[#rows + 1] = {key, kind, redis.call(read[kind][1], key, unpack(read[kind], 2))}
  end
end
return rows
"""


def dump(redis: Any) -> dict[str, Any]:
    """All data of Redis without an expiry, comparable. Of a lease, only that it exists."""
    content: dict[str, Any] = {}
    for key, kind, read in redis.eval(DUMP, 0):
        if kind in (b"hash", b"zset"):
            read = dict(zip(read[::2], read[1::2], strict=True))
        content[key.decode()] = {*read} if kind == b"set" else read
    for key in content:
        if key.endswith(":generations"):
            content[key] = {*content[key]}
    return content


class Resending(PartitionedStore):
    """Sends every script twice, like a client that lost the answer, and demands that the second
    call changes nothing."""

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        answer = super().run(verb, partition, *args)
        if verb == "claim" and not answer[2] and args[2]:
            return answer  # it may find something the next time
        once = dump(self.redis)
        again = super().run(verb, partition, *args)
        assert dump(self.redis) == once, f"{verb} sent again changed something"
        if verb == "claim":
            assert again[1:6] == answer[1:6]  # tasks to be served are named by the next claim
            assert again[6][::2] == answer[6][::2]  # fetches to be reported when they start
            assert all(map(int.__le__, again[6][1::2], answer[6][1::2]))  # it may be sent sooner
        return answer


class Losing(PartitionedStore):
    """Loses the answer of the claim of this number, from 1 on, to a partition; 0: of none."""

    lost = claims = 0

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        answer = super().run(verb, partition, *args)
        self.claims += verb == "claim"
        if verb == "claim" and self.claims == self.lost:
            raise ConnectionError
        return answer


class Bench:
    """Requests have names; tests compare the ``names`` of claimed requests."""

    def __init__(
        self,
        redis: Redis,
        partitions: int = 1,
        *,
        store: type[PartitionedStore] = Resending,
        kind: type[Frontier] = Frontier,
    ) -> None:
        self.redis: Any = redis  # the client's own types mix bytes and text
        self.store: Any = store(redis, partitions=partitions)
        self.frontier: Any = kind(self.store)
        self.leases: Leases = self.frontier.leases
        self.sequences: dict[int, int] = defaultdict(int)
        self.name_of: dict[bytes, str] = {}
        self.held: Any = None  # for tests that hold one request all along
        self.wait = -1

    def open(
        self,
        *seeds: Admission,
        task: int = 1,
        delay: int = 0,
        concurrency: int = 1_000_000,
        page_limit: int = 0,
        host_page_limit: int = 0,
        layers: int = 0,
        layer: int = 0,
    ) -> None:
        limits = TaskLimits(
            0, delay, concurrency, page_limit, host_page_limit=host_page_limit, layers=layers,
            layer=layer,
        )  # fmt: skip
        self.frontier.open_task(task, limits, list(seeds))

    def begin_cancel(self, task: int) -> None:
        """Does the first step of a cancel that gets no further."""
        self.store.run("state", 0, task, "cancelling", "begin")

    def request(
        self,
        name: str,
        host: str = "a.example",
        *,
        task: int = 1,
        priority: int = 0,
        task_priority: int = 0,
        depth: int = 0,
        delay: int = 0,
        record: bytes | None = None,
    ) -> Admission:
        rid = make_rid(task, name.encode())
        self.name_of[rid] = name
        rank = rank_of(priority, task_priority, depth)
        return Admission(rid, rank, host, delay, name.encode() if record is None else record)

    def requests(self, n: int, host: str = "a.example", **options: Any) -> list[Admission]:
        return [self.request(f"{host}/{i}", host, **options) for i in range(n)]

    def claim(
        self, n: int = 500, generation: int = NODE, fetched: Iterable[Claimed] = ()
    ) -> list[Claimed]:
        return self.whole_claim(n, generation, fetched).requests

    def whole_claim(
        self, n: int = 500, generation: int = NODE, fetched: Iterable[Claimed] = ()
    ) -> Claim:
        over = [FreedSlot(request.rid, request.host, request.claim) for request in fetched]
        claim = self._claim(generation, n, over)
        if sent := [request for request in claim.requests if request.due is not None]:
            self.report_sent(*sent, generation=generation)
        return claim

    def report_sent(self, *requests: Claimed, ago: float = 0, generation: int = NODE) -> None:
        """The workers sent these requests ``ago`` milliseconds ago."""
        signal = Signal(SENT, ago)
        self._claim(
            generation, 0, [FreedSlot(one.rid, one.host, one.claim, signal) for one in requests]
        )

    def claim_unsent(self, n: int = 500, generation: int = NODE) -> list[Claimed]:
        """A claim whose requests the workers have not sent yet."""
        return self._claim(generation, n).requests

    def _claim(self, generation: int, n: int, over: Sequence[FreedSlot] = ()) -> Claim:
        self.sequences[generation] += 1
        claim = self.frontier.claim(generation, self.sequences[generation], n, over)
        self.wait = claim.wait
        return claim

    def claim_all(self, n: int = 500, generation: int = NODE) -> list[Claimed]:
        """Claims as long as something may be due at once; a claim that spins is an error."""
        found: list[Claimed] = []
        for _ in range(1000):
            some = self.claim(n, generation)
            found += some
            if not some and self.wait != 0:
                return found
        raise AssertionError("claim says that more is due at once, for ever")

    def names(self, requests: Iterable[Claimed | Admission]) -> list[str]:
        return [self.name_of[request.rid] for request in requests]

    def completion(
        self,
        request: Claimed | Admission,
        *follow_ups: Admission,
        failed: bool = False,
        task: int = 1,
        duplicates: int = 0,
        items: int = 0,
    ) -> Completion:
        task, links = getattr(request, "task", task), list(follow_ups)
        return Completion(request.rid, task, request.host, failed, links, duplicates, items)

    def complete(
        self, request: Claimed | Admission, *follow_ups: Admission, **options: Any
    ) -> set[int]:
        return self.frontier.complete([self.completion(request, *follow_ups, **options)])

    def complete_all(self, requests: Iterable[Claimed]) -> set[int]:
        return self.frontier.complete([self.completion(request) for request in requests])

    def retry(self, request: Claimed, delay: int = 0, generation: int = NODE) -> int:
        return self.frontier.retry(generation, [request.given_back(delay)])

    def release(self, *requests: Claimed, deliveries: int = 0, generation: int = NODE) -> int:
        given = [request.given_back(deliveries) for request in requests]
        return self.frontier.release(generation, given)

    def redirect(self, request: Claimed, host: str, generation: int = NODE) -> int:
        """Moves it on to another host, or to the same; its record grows as it does by that."""
        record = request.record + b" " + host.encode()
        return self.frontier.redirect(generation, [request.given_back((host, record))])

    def park(
        self,
        *requests: Claimed,
        reason: str = "no callback",
        version: str = "",
        generation: int = NODE,
    ) -> int:
        given = [request.given_back(reason) for request in requests]
        return self.frontier.park(generation, given, version)

    def give_up(self, request: Claimed, verb: str) -> None:
        """Makes the node no longer hold it: "complete", "retry" (in a minute), "release", "park",
        or "replay" of everything the node held."""
        if verb == "complete":
            self.complete(request)
        elif verb == "retry":
            self.retry(request, 60_000)
        elif verb == "release":
            self.release(request)
        elif verb == "park":
            self.park(request)
        else:
            assert verb == "replay"
            self.leases.replay(NODE)

    def counts(self, task: int = 1) -> Counts:
        counts: Counts | None = self.frontier.counts(task)
        assert counts is not None
        return counts

    def places(self, task: int = 1) -> tuple[int, int, int, int]:
        """ready, in progress, delayed, parked"""
        counts = self.counts(task)
        return counts.ready, counts.in_progress, counts.delayed, counts.parked

    def key(self, name: str, argument: object = "", partition: int = 0) -> str:
        return self.store.keys[partition](name, argument)

    def now(self) -> int:
        seconds, micro = self.redis.time()
        return seconds * 1000 + micro // 1000

    def after(self, moment: int) -> None:
        """Returns when Redis's clock is past ``moment`` (ms)."""
        while self.now() <= moment:
            pass

    def dump(self) -> dict[str, Any]:
        return dump(self.redis)
