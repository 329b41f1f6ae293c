"""Snapshot: everything a Redis holds, to be put in place of what it holds later."""

from __future__ import annotations

from typing import Any

from redis import Redis


class Snapshot:
    """Taken when it is made; ``back`` makes Redis what it was then, as a restored copy does, or a
    replica that was behind and took over."""

    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis
        self._keys = {key: (redis.dump(key), redis.pttl(key)) for key in redis.scan_iter()}

    def back(self) -> None:
        self._redis.flushall()
        for key, (value, ttl) in self._keys.items():
            self._redis.restore(key, max(0, ttl), value)
