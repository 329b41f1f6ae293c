"""Partitions: the partition of each host, and how a verb is run in it."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgpack
from redis import Redis
from redis.exceptions import ConnectionError, RedisClusterException, ResponseError

from crawlframe.base import faults
from crawlframe.errors import EraChanged, Fenced, FrontierError
from crawlframe.frontier.client.batches import chunks
from crawlframe.frontier.client.call_log import CallLog
from crawlframe.frontier.client.keys import Keys
from crawlframe.frontier.client.scripts import UNCOUNTED, UNGUARDED, Scripts
from crawlframe.proxies.place import host_in

T = TypeVar("T")


REFUSALS = {  # first word of a script's error -> its meaning
    "FENCED": Fenced,
    "ERA": EraChanged,
    "LOST": EraChanged,
    "NOTASK": FrontierError,
}


class PartitionedStore:
    """The frontier's data in Redis, divided by hash(host); every script uses one partition only."""

    def __init__(
        self,
        redis: Redis,
        prefix: str = "cf",
        partitions: int = 1,
        call_log: CallLog | None = None,
        *,
        follows: bool = False,
    ) -> None:
        """``follows``: continues in the next era. Not for holders of requests of the era before."""
        self.redis: Any = redis  # the client's own types mix bytes and str
        self.partitions = partitions
        self.call_log = call_log or CallLog()
        self._follows = follows
        self.keys = [Keys(prefix, partition) for partition in range(partitions)]
        self._scripts = Scripts(redis)

    def apart(self) -> PartitionedStore:
        """The same data for a client of its own, which continues in no other era."""
        return PartitionedStore(self.redis, self.keys[0].prefix, self.partitions)

    def partition_of(self, host: str) -> int:
        """The number of the partition of a host, or of the host of a place."""
        return _hash_of(host) % self.partitions if self.partitions > 1 else 0

    def split(self, things: Iterable[T], host: Callable[[T], str]) -> Iterator[tuple[int, list[T]]]:
        """(partition, the things whose host belongs to it); partitions without things are left
        out."""
        if self.partitions == 1:
            things = list(things)
            if things:
                yield 0, things
            return
        mine: dict[int, list[T]] = defaultdict(list)
        for thing in things:
            mine[self.partition_of(host(thing))].append(thing)
        yield from mine.items()

    def split_small(
        self, things: Iterable[T], host: Callable[[T], str]
    ) -> Iterator[tuple[int, list[T]]]:
        """As ``split``, in pieces for one script call each."""
        for partition, mine in self.split(things, host):
            for chunk in chunks(mine):
                yield partition, chunk

    def run_everywhere(self, verb: str, *args: Any) -> list[Any]:
        """Runs the script of a verb in each partition, in order. Returns their answers."""
        return [self.run(verb, partition, *args) for partition in range(self.partitions)]

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        """Runs the script of a verb. Raises Fenced, EraChanged, FrontierError, redis.RedisError."""
        try:
            return self._run(verb, partition, *args)
        except EraChanged:
            if not self._follows or verb in UNGUARDED:
                raise
            era, _ = self.era_of(partition)
            self.call_log.learn(partition, era)
            return self._run(verb, partition, *args)

    def _run(self, verb: str, partition: int, *args: Any) -> Any:
        keys, guarded = self.keys[partition], verb not in UNGUARDED
        if guarded:
            args = (*args, self.call_log.words(partition))
        try:
            faults.at(f"{verb}.before", ConnectionError)
            answer = self._scripts[verb](keys=[keys.tag], args=args)
            faults.at(f"{verb}.after", ConnectionError)
        except RedisClusterException as error:  # not a RedisError, although it should be
            raise ConnectionError(str(error)) from None
        except ResponseError as error:
            word = str(error).partition(" ")[0]
            if word == "LOST":
                self._scripts["era"](keys=[keys.tag], args=[0, "doubted"])
            if refusal := REFUSALS.get(word):
                raise refusal(str(error)) from None
            raise
        if guarded and verb not in UNCOUNTED:
            self.call_log.count(partition)
        return answer

    def era_of(self, partition: int) -> tuple[int, str]:
        """The number and the state of the partition's era; era 0 when there is none. One that
        cannot be read is doubted, as in ``read_era`` of the scripts."""
        row = self.redis.get(self.keys[partition]("ERA")) or b"0 open"
        number, _, state = row.partition(b" ")
        if not number.isdigit() or not state.isalpha():
            return 0, "doubted"
        return int(number), state.decode()


@lru_cache(maxsize=10_000)  # most links of a page are to hosts seen a moment ago
def _hash_of(host: str) -> int:
    return zlib.crc32(host_in(host).encode())


def pack(value: Any) -> bytes:
    """msgpack with the old raw types: Redis's cmsgpack does not read bin types, and msgspec writes
    bytes as nothing else."""
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed
