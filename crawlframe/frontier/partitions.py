"""Partitions: which host lives where, and how a verb is run there."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgpack
from redis import Redis
from redis.exceptions import ConnectionError, RedisClusterException, ResponseError

from crawlframe.errors import Fenced, FrontierError
from crawlframe.frontier.keys import Keys
from crawlframe.frontier.scripts import Scripts

T = TypeVar("T")


class Partitions:
    """The frontier's keys cut by hash(host); every script touches one partition only."""

    def __init__(self, redis: Redis, prefix: str = "cf", partitions: int = 1) -> None:
        self.redis: Any = redis  # the client's own types mix bytes and text
        self.partitions = partitions
        self.keys = [Keys(prefix, partition) for partition in range(partitions)]
        self._scripts = Scripts(redis)

    def partition_of(self, host: str) -> int:
        """The partition in which a host lives."""
        return _hash_of(host) % self.partitions if self.partitions > 1 else 0

    def split(self, things: Iterable[T], host: Callable[[T], str]) -> Iterator[tuple[int, list[T]]]:
        """(partition, the things whose host lives there); no partition without things."""
        if self.partitions == 1:
            things = list(things)
            if things:
                yield 0, things
            return
        mine: dict[int, list[T]] = defaultdict(list)
        for thing in things:
            mine[self.partition_of(host(thing))].append(thing)
        yield from mine.items()

    def run(self, verb: str, partition: int, *args: Any) -> Any:
        """Runs the script of a verb. Raises Fenced, FrontierError, redis.RedisError."""
        try:
            return getattr(self._scripts, verb)(keys=[self.keys[partition].tag], args=args)
        except RedisClusterException as error:  # not a RedisError, though it means one
            raise ConnectionError(str(error)) from None
        except ResponseError as error:
            if "FENCED" in str(error):
                raise Fenced(str(error)) from None
            if "NOTASK" in str(error):
                raise FrontierError(str(error)) from None
            raise


@lru_cache(maxsize=10_000)  # most links of a page are on hosts met a moment ago
def _hash_of(host: str) -> int:
    return zlib.crc32(host.encode())


def pack(value: Any) -> bytes:
    """msgpack in the old raw types: Redis's own cmsgpack does not read bin types."""
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":***@") if password else url
