"""Eras: what becomes of the data in Redis when some of it was lost.

The database keeps the numbers of the eras. When a client turns out to know of more than Redis does,
the era is doubted; then nobody claims any more, until a steward has begun the next one, filled
Redis again from the ledger, and opened it. What belongs to an earlier era is refused then."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from crawlframe.frontier.keys import KEYS, LASTING
from crawlframe.frontier.partitions import PartitionedStore

OPEN, DOUBTED, CLOSED = "open", "doubted", "closed"


class EraState(NamedTuple):
    """``state``: OPEN, DOUBTED or CLOSED."""

    number: int
    state: str


class Eras:
    """Raises redis.RedisError, and EraChanged when another one has begun meanwhile."""

    def __init__(self, store: PartitionedStore) -> None:
        self._store = store

    def read(self) -> list[EraState]:
        """What each partition says."""
        return [
            EraState(*self._store.era_of(partition)) for partition in range(self._store.partitions)
        ]

    def settled(self) -> int:
        """The number of the era that all partitions are in, or 0 when it is not open everywhere."""
        eras = {*self.read()}
        (era, *others) = eras
        return era.number if not others and era.state == OPEN else 0

    def learn(self) -> None:
        """From now on this client belongs to the present era."""
        for partition in range(self._store.partitions):
            era, _ = self._store.era_of(partition)
            self._store.call_log.learn(partition, era)

    def doubt(self) -> None:
        """Something is wrong: nothing is claimed until a later era is open."""
        for partition in range(self._store.partitions):
            self._store.run("era", partition, self._store.call_log.eras[partition], DOUBTED)

    def begin(self, number: int) -> None:
        """A later era begins, and this client belongs to it. What others write is refused until
        they have learned of it; what they claim, until it is open."""
        for partition in range(self._store.partitions):
            self._store.run("era", partition, number, CLOSED)
            self._store.call_log.learn(partition, number)

    def installation(self) -> str:
        """The id of the database that this data belongs to; "" before the first."""
        kept: bytes | None = self._store.redis.get(self._installation)
        return (kept or b"").decode(errors="replace")

    def belong_to(self, installation: str, *, instead: bool = False) -> str:
        """Writes the id of a database where none is, or (``instead``) over the one that is there;
        returns the one that is there then."""
        self._store.redis.set(self._installation, installation, nx=not instead)
        return self.installation()

    @property
    def _installation(self) -> str:
        return self._store.keys[0]("INSTALLATION")

    def wipe(self, keep: Collection[str] = LASTING) -> None:
        """Drops everything but the keys of these names; by default, what is rebuilt from the
        database. For a closed era."""
        lasting = {KEYS[name][0].partition(":")[0].encode() for name in keep}
        for keys in self._store.keys:
            tag = keys.tag.encode()
            for key in self._store.redis.scan_iter(match=keys.pattern(), count=1000):
                if key[len(tag) :].partition(b":")[0] not in lasting:
                    self._store.redis.unlink(key)

    def open(self) -> None:
        """The era of this client is whole."""
        for partition in range(self._store.partitions):
            self._store.run("era", partition, self._store.call_log.eras[partition], OPEN)

    def confirm(self) -> None:
        """Raises EraChanged when Redis does not know all that this client was told is done."""
        for partition in range(self._store.partitions):
            self._store.run("confirm", partition)
