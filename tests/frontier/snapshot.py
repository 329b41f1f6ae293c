"""Snapshot: everything in a Redis, to be restored later."""

from __future__ import annotations

from typing import Any

from redis import Redis


class Snapshot:
    """Taken when created, of the keys that match; ``back`` restores them, like a restored copy or a
    replica that lagged behind and took over."""

    def __init__(self, redis: Redis, match: str = "*") -> None:
        self._redis: Any = redis
        self._match = match
        self._keys: dict[bytes, tuple[bytes, int]] = {}
        for key in self._redis.scan_iter(match=match):
            if (value := self._redis.dump(key)) is not None:  # it has not expired since
                self._keys[key] = value, self._redis.pttl(key)

    def back(self) -> None:
        for key in [*self._redis.scan_iter(match=self._match)]:
            self._redis.delete(key)
        for key, (value, ttl) in self._keys.items():
            self._redis.restore(key, max(0, ttl), value)
