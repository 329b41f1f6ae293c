"""Decisions: operators decide whether a version that loses data on kept pages goes live."""

from __future__ import annotations

import msgspec

from crawlframe.frontier.client.rows import StorePart

KEPT_MS = 86_400_000  # milliseconds for which a decision holds


class Decision(msgspec.Struct, frozen=True):
    """``by``: the name of the operator."""

    accepted: bool
    by: str


class Decisions(StorePart):
    """Lost with Redis. Raises redis.RedisError."""

    def give(self, version: str, decision: Decision) -> None:
        """Decides about a version, on all nodes that ask."""
        text = msgspec.json.encode(decision)
        self._store.redis.set(self._store.keys[0]("DECIDED", version), text, px=KEPT_MS)

    def of(self, version: str) -> Decision | None:
        text = self._store.redis.get(self._store.keys[0]("DECIDED", version))
        return None if text is None else msgspec.json.decode(text, type=Decision)
