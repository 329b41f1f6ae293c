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

    def take(self, wanted: Sequence[Reservation]) -> dict[bytes, int]:
        """Reserves pages, or ends reservations. Returns, by rid, for how many milliseconds another
        request has had its page; 0: it has it itself."""
        held: dict[bytes, int] = {}
        for partition, mine in self._store.split(wanted, lambda one: one.host):
            for start in range(0, len(mine), MAX_ENTRIES):
                some = mine[start : start + MAX_ENTRIES]
                entries = pack([[one.key.hex(), one.rid, one.lasts] for one in some])
                answers = self._store.run("reserve", partition, entries)
                held |= {one.rid: ms for one, ms in zip(some, answers, strict=True)}
        return held
