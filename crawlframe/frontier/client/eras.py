"""Eras: how data in Redis is replaced after some of it was lost.

The database numbers the eras. When a client knows of calls that Redis does not, the era is doubted;
nothing is claimed then until a steward has begun the next one, filled Redis again from the ledger,
and opened it. Writes that belong to an earlier era are refused."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple

from crawlframe.frontier.client.keys import KEYS, LASTING
from crawlframe.frontier.client.rows import StorePart

ERA_MS = 86_400_000  # ms, as in _shared.lua

OPEN, DOUBTED, CLOSED = "open", "doubted", "closed"


class EraState(NamedTuple):
    """``state``: OPEN, DOUBTED or CLOSED."""

    number: int
    state: str


class Eras(StorePart):
    """Raises redis.RedisError, and EraChanged when another era has begun in the meantime."""

    def read(self) -> list[EraState]:
        """The era of each partition."""
        return [
            EraState(*self._store.era_of(partition)) for partition in range(self._store.partitions)
        ]

    def settled(self) -> int:
        """The number of the era that is open in all partitions, or 0 when there is none."""
        eras = {*self.read()}
        (era, *others) = eras
        return era.number if not others and era.state == OPEN else 0

    def learn(self) -> None:
        """Moves this client to the current era."""
        for partition in range(self._store.partitions):
            era, _ = self._store.era_of(partition)
            self._store.call_log.learn(partition, era)

    def doubt(self) -> None:
        """Marks the data there is as doubted, of whichever era it is: nothing is claimed until a
        later one is open."""
        self._store.run_everywhere("era", 0, DOUBTED)

    def begin(self, number: int) -> None:
        """Starts a later era, and moves this client to it. Writes of other clients are refused
        until they have learned of it; their claims, until it is open."""
        for partition in range(self._store.partitions):
            self._store.run("era", partition, number, CLOSED)
            self._store.call_log.learn(partition, number)

    def installation(self) -> str:
        """The id of the database that this data belongs to; "" before it has one."""
        kept: bytes | None = self._store.redis.get(self._installation)
        return (kept or b"").decode(errors="replace")

    def belong_to(self, installation: str, *, instead: bool = False) -> str:
        """Writes the id of a database if there is none, or (``instead``) replaces it; returns the
        id that is there then."""
        self._store.redis.set(self._installation, installation, nx=not instead)
        return self.installation()

    @property
    def _installation(self) -> str:
        return self._store.keys[0]("INSTALLATION")

    def wipe(self, keep: Collection[str] = LASTING) -> None:
        """Drops everything but the keys of these names; by default, whatever is rebuilt from the
        database. For a closed era."""
        lasting = {KEYS[name][0].partition(":")[0].encode() for name in keep}
        host = KEYS["HOST"][0].partition(":")[0].encode()
        for keys in self._store.keys:
            tag = keys.tag.encode()
            for key in self._store.redis.scan_iter(match=keys.pattern(), count=1000):
                kind = key[len(tag) :].partition(b":")[0]
                if kind not in lasting:
                    self._store.redis.unlink(key)
                elif kind == host:
                    self._forget_requests(key)

    def _forget_requests(self, host: bytes) -> None:
        """Keeps of a host only its learned limits, and its orders."""
        pipe = self._store.redis.pipeline(transaction=False)
        pipe.hdel(host, "a", "t", "w", "ip", "d")
        pipe.hmget(host, "r", "ou", "od", "oc", "op")
        _, (rest, ends, *order) = pipe.execute()
        if ends is None and order != [None] * 3:
            return  # the order has no end
        known = [int(at) for at in (rest, ends) if at is not None and at.isdigit()]
        self._store.redis.pexpireat(host, max([round(1000 * time.time()), *known]) + ERA_MS)

    def open(self) -> None:
        """Opens the era that this client has begun and filled: its data is complete. Raises
        EraChanged when Redis has lost something of it, or the era is doubted."""
        self._store.run_everywhere("confirm", OPEN)

    def confirm(self) -> None:
        """Raises EraChanged when Redis has lost calls of this client that it had answered."""
        self._store.run_everywhere("confirm", "")
