"""Sieve: fingerprints that the ledger has recorded, so that known links never become requests.

A fingerprint is added only after the commit that recorded it (or after Redis reported it as
admitted, which is later still), so dropping a link that is in here never loses it."""

from __future__ import annotations

from collections.abc import Iterable, Set

GENERATION = 100_000  # fingerprints; two generations are kept, the older one is dropped as a whole


class Sieve:
    """Bounded sets of fingerprints by task. Filled by the commit thread, read by the loop."""

    def __init__(self, size: int = GENERATION) -> None:
        self._size = size
        self._count = 0
        self._young: dict[int, set[bytes]] = {}
        self._old: dict[int, set[bytes]] = {}

    def of(self, task: int) -> tuple[Set[bytes], Set[bytes]]:
        """The fingerprints of one task, in two sets that may both grow meanwhile."""
        return self._young.get(task, _NONE), self._old.get(task, _NONE)

    def add(self, task: int, fingerprints: Iterable[bytes]) -> None:
        """Remembers fingerprints that the ledger has recorded."""
        young = self._young.setdefault(task, set())
        before = len(young)
        young.update(fingerprints)
        self._count += len(young) - before
        if self._count > self._size:
            self._old, self._young, self._count = self._young, {}, 0


_NONE: Set[bytes] = frozenset()
