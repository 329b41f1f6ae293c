"""Proxies: the pool in the frontier, and the state of each proxy there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crawlframe.frontier.client.eras import ERA_MS
from crawlframe.frontier.client.keys import Keys
from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.rows import StorePart
from crawlframe.proxies.place import host_in, pair_of

TASKS = 100  # tasks named for one place

Pair = tuple[str, int]  # host, and id of a proxy


class PooledProxy(NamedTuple):
    """A proxy that may be used. ``most``: requests in flight over all hosts, 0 = no limit.
    ``life`` changes when it may be used again after it was out."""

    id: int
    most: int = 0
    life: int = 0
    tier: int = 0
    country: str = ""
    tags: tuple[str, ...] = ()


class ProxyUse(NamedTuple):
    """A proxy at one instant, over all partitions."""

    in_flight: int = 0
    failures: int = 0  # in a row; in the partition with the most
    out: bool = False  # in some partition
    login: bool = False  # it refused its login when it was used last, in some partition


class PairState(NamedTuple):
    """A proxy at one host. Instants are in seconds since the epoch."""

    in_flight: int
    next_at: float
    resting_until: float
    why: str
    failures: int  # rests in a row
    interval: float  # seconds between two requests, 0: it is not known, or there is none


class PairUse(NamedTuple):
    """A proxy's record at one host. ``used_at``: seconds since the epoch at the end of its last
    fetch. ``latency_ms``: smoothed; None before the first answer."""

    used_at: float
    latency_ms: int | None
    errors: int


class HostUse(NamedTuple):
    """The proxies that were used at a host within a day, by id, and by choice the tier that works
    there, where that is not the lowest or was not."""

    pairs: dict[int, PairUse]
    tiers: dict[str, int]


class Lack(NamedTuple):
    """A place where requests of these tasks wait and found no proxy, at most 100 of them; ``since``
    in seconds since the epoch."""

    place: str
    since: float
    tasks: frozenset[int] = frozenset()


class Proxies(StorePart):
    """The part of the frontier that concerns proxies. All methods raise redis.RedisError, and
    EraChanged when another era has begun."""

    def publish(self, version: str, proxies: Sequence[PooledProxy]) -> None:
        """Makes these the pool; with a version that is there already, nothing changes. Each of
        several partitions has its share of the limit of a proxy, at least 1."""
        for partition, there in enumerate(self.versions()):
            if there != version:
                rows = [self._row(partition, proxy) for proxy in proxies]
                self._store.run("pool", partition, version, pack(rows))

    def _row(self, partition: int, proxy: PooledProxy) -> list[object]:
        most = proxy.most
        if most:
            share, more = divmod(most, self._store.partitions)
            most = max(1, share + (partition < more))
        return [proxy.id, most, proxy.life, proxy.tier, proxy.country, *proxy.tags]

    def restore(self, sessions: Mapping[str, str]) -> None:
        """Restores the proxies of sessions that have none, by place; "": none."""
        for place, proxy in sessions.items():
            partition = self._store.partition_of(host_in(place))
            if proxy:
                key = self._store.keys[partition]("HOST", place)
                if self._store.redis.hsetnx(key, "px", proxy):
                    self._store.redis.pexpire(key, ERA_MS)

    def versions(self) -> list[str]:
        """The version of the pool in each partition; "" where there is none."""
        found = (self._store.redis.get(keys("POOL_VERSION")) for keys in self._store.keys)
        return [(version or b"").decode(errors="replace") for version in found]

    def out(self) -> set[int]:
        """Proxies that have failed three times in a row, and are not used until they are published
        with another life."""
        members = (self._store.redis.smembers(keys("OUT")) for keys in self._store.keys)
        return {int(one) for some in members for one in some if one.isdigit()}

    def use(self, ids: Collection[int]) -> dict[int, ProxyUse]:
        """The present use of each of these proxies."""
        found = dict.fromkeys(ids, ProxyUse())
        for keys in self._store.keys:
            pipe = self._store.redis.pipeline(transaction=False)
            for one in found:
                pipe.hmget(keys("PROXY", one), "a", "f", "lo")
                pipe.sismember(keys("OUT"), one)
            answers = iter(pipe.execute())
            for one, (active, failures, login), out in zip(found, answers, answers, strict=True):
                before = found[one]
                found[one] = ProxyUse(
                    before.in_flight + max(0, int(active or 0)),
                    max(before.failures, int(failures or 0)),
                    before.out or bool(out),
                    before.login or bool(login),
                )
        return found

    def lacking(self, most: int) -> list[Lack]:
        """Places with requests that found no usable proxy of their choice, the first ones first; at
        most so many of each partition. Places where none waits any longer are forgotten."""
        found: list[Lack] = []
        for keys in self._store.keys:
            some = self._store.redis.zrange(keys("LACKING"), 0, most - 1, withscores=True)
            if not some:
                continue
            pipe = self._store.redis.pipeline(transaction=False)
            for place, _ in some:
                pipe.zrange(keys("LANES", place.decode()), 0, TASKS - 1)
            for (place, since), lanes in zip(some, pipe.execute(), strict=True):
                if lanes:
                    tasks = frozenset(int(lane.partition(b":")[0]) for lane in lanes)
                    found.append(Lack(place.decode(), since / 1000, tasks))
                else:  # claims will note it again
                    self._store.redis.zrem(keys("LACKING"), place)
        return sorted(found, key=lambda lack: lack.since)

    def at(self, host: str, ids: Collection[int]) -> dict[int, PairState]:
        """States of these proxies at this host, if there are any."""
        return {one: state for (_, one), state in self.states((host, one) for one in ids).items()}

    def states(self, pairs: Iterable[Pair]) -> dict[Pair, PairState]:
        """States of these pairs, if there are any."""
        rows = self._ask(
            pairs,
            lambda pipe, keys, pair: pipe.hmget(
                keys("HOST", pair_of(*pair)), "a", "n", "r", "why", "f", "g", "d"
            ),
        )
        return {pair: _state_of(row) for pair, row in rows if any(one is not None for one in row)}

    def uses(self, pairs: Iterable[Pair]) -> dict[Pair, PairUse]:
        """Uses of these pairs within a day."""
        rows = self._ask(
            pairs, lambda pipe, keys, pair: pipe.hget(keys("USED", pair[0]), str(pair[1]))
        )
        return {pair: _pair_use_of(row) for pair, row in rows if row is not None}

    def used_at(self, host: str) -> HostUse:
        """The use of proxies at a host, of at most 1000 of them."""
        keys = self._store.keys[self._store.partition_of(host)]
        found = HostUse({}, {})
        for name, value in self._store.redis.hgetall(keys("USED", host)).items():
            if name.startswith(b"t "):
                found.tiers[name[2:].decode()] = int(value)
            else:
                found.pairs[int(name)] = _pair_use_of(value)
        return found

    def _ask(
        self, pairs: Iterable[Pair], ask: Callable[[Any, Keys, Pair], object]
    ) -> list[tuple[Pair, Any]]:
        """Each pair with the answer for it, by one round trip to each partition."""
        there: dict[int, list[Pair]] = defaultdict(list)
        for pair in pairs:
            there[self._store.partition_of(pair[0])].append(pair)
        found: list[tuple[Pair, Any]] = []
        for partition, some in there.items():
            pipe = self._store.redis.pipeline(transaction=False)
            for pair in some:
                ask(pipe, self._store.keys[partition], pair)
            found += zip(some, pipe.execute(), strict=True)
        return found


def _pair_use_of(value: bytes) -> PairUse:
    at, latency, errors = map(int, value.split())
    return PairUse(at / 1000, None if latency < 0 else latency, errors)


def _state_of(row: list[bytes | None]) -> PairState:
    active, next_at, rest, why, failures, gap, delay = row
    return PairState(
        max(0, int(active or 0)),
        float(next_at or 0) / 1000,
        float(rest or 0) / 1000,
        (why or b"").decode(errors="replace"),
        int(failures or 0),
        max(float(gap or 0), float((delay or b"0").partition(b" ")[0])) / 1000,
    )
