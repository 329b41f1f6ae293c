"""Acceptances: versions that go live though they lose data on kept pages, by an operator's word."""

from __future__ import annotations

from crawlframe.frontier.client.rows import StorePart

KEPT_MS = 86_400_000  # milliseconds for which an acceptance holds


class Acceptances(StorePart):
    """Lost with Redis. Raises redis.RedisError."""

    def give(self, version: str) -> None:
        """Accepts a version, on all nodes that ask."""
        self._store.redis.set(self._store.keys[0]("ACCEPTED", version), 1, px=KEPT_MS)

    def has(self, version: str) -> bool:
        return bool(self._store.redis.exists(self._store.keys[0]("ACCEPTED", version)))
