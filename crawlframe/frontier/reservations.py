"""Reservations: which request fetches a page that several tasks want."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlframe.frontier.batches import MAX_ENTRIES
from crawlframe.frontier.partitions import PartitionedStore, pack


class Reservation(NamedTuple):
    """``key``: of the page. ``host``: of its URL. ``lasts``: milliseconds; 0 ends it."""

    key: bytes
    host: str
    rid: bytes
    lasts: int = 0


class Reservations:
    """They lapse by themselves, and are lost with Redis: then a page may be fetched twice."""

    def __init__(self, store: PartitionedStore) -> None:
        self._store = store

    def take(self, wanted: Sequence[Reservation]) -> set[bytes]:
        """Reserves pages, or ends reservations. Returns the rids that have theirs."""
        have: set[bytes] = set()
        for partition, mine in self._store.split(wanted, lambda one: one.host):
            for start in range(0, len(mine), MAX_ENTRIES):
                some = mine[start : start + MAX_ENTRIES]
                entries = pack([[one.key.hex(), one.rid, one.lasts] for one in some])
                answers = self._store.run("reserve", partition, entries)
                have |= {one.rid for one, yes in zip(some, answers, strict=True) if yes}
        return have
