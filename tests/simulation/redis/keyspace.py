"""Keyspace: values and expiry times by key, and copies of all that share unchanged values."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from tests.simulation.redis.values import Hash, List, ReplyError, Set, SortedSet

EMPTY: dict[type, Any] = {kind: kind() for kind in (bytes, Hash, List, Set, SortedSet)}
KEY_BYTES = 96  # estimated cost of a key, and of the objects that hold its value
ENTRY_BYTES = 32  # the same of a field, member or element


class Snapshot(NamedTuple):
    """Copy of a keyspace at one moment."""

    values: dict[bytes, Any]
    expiry: dict[bytes, int]


class Keyspace:
    """The keys of a server. ``now`` is the time of the current command in microseconds; no key
    expires while a command or script runs."""

    def __init__(self, random: Random) -> None:
        self.values: dict[bytes, Any] = {}
        self.expiry: dict[bytes, int] = {}  # key -> ms
        self.random = random
        self.now = 0
        self._due: list[tuple[int, bytes]] = []  # heap of (ms, key), with entries that are outdated
        self._shared: set[bytes] = set()  # keys whose value belongs to a snapshot as well

    @property
    def now_ms(self) -> int:
        return self.now // 1000

    def advance(self, now: int) -> None:
        """Sets the time, and removes the keys that have expired."""
        self.now = now
        due, ms = self._due, now // 1000
        while due and due[0][0] < ms:
            at, key = heappop(due)
            if self.expiry.get(key) == at:
                self.remove(key)

    def read(self, key: bytes, kind: type) -> Any:
        """The value of a key, not to be changed; an empty one if there is none."""
        value = self.values.get(key)
        if value is None:
            return EMPTY[kind]
        if value.__class__ is not kind:
            raise ReplyError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def change(self, key: bytes, kind: type) -> Any:
        """The value of a key, to be changed; ``trim`` follows if it may be empty afterwards."""
        value = self.read(key, kind)
        if key not in self.values or key in self._shared:
            self._shared.discard(key)
            value = self.values[key] = kind(value)
        return value

    def trim(self, key: bytes, value: Any) -> None:
        """Removes a key whose value is empty."""
        if not value:
            self.remove(key)

    def put(self, key: bytes, value: Any, *, keep_expiry: bool = False) -> None:
        """Replaces the value of a key."""
        self.values[key] = value
        self._shared.discard(key)
        if not keep_expiry:
            self.expiry.pop(key, None)

    def remove(self, key: bytes) -> bool:
        """Whether the key existed."""
        self.expiry.pop(key, None)
        self._shared.discard(key)
        return self.values.pop(key, None) is not None

    def expire_at(self, key: bytes, ms: int) -> None:
        if ms <= self.now_ms:
            self.remove(key)
            return
        self.expiry[key] = ms
        heappush(self._due, (ms, key))

    def clear(self) -> None:
        self.restore(Snapshot({}, {}))

    def snapshot(self) -> Snapshot:
        self._shared = {*self.values}
        return Snapshot(self.values.copy(), self.expiry.copy())

    def restore(self, snapshot: Snapshot) -> None:
        self.values, self.expiry = snapshot.values.copy(), snapshot.expiry.copy()
        self._shared = {*self.values}
        self._due = sorted((ms, key) for key, ms in self.expiry.items())

    def size(self, key: bytes) -> int:
        """Estimated bytes that a key takes."""
        value = self.values[key]
        if isinstance(value, bytes):
            return KEY_BYTES + len(key) + len(value)
        content = sum(map(len, value)) + ENTRY_BYTES * len(value)
        if isinstance(value, Hash):
            content += sum(map(len, value.values()))
        return KEY_BYTES + len(key) + content
