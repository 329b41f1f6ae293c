"""Draw: the demo site's dice. The same key gives the same numbers on every machine and Python."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """An endless series of numbers that depends only on the parts of its key."""

    __slots__ = ("_key", "_pool", "_round")

    def __init__(self, *key: object) -> None:
        self._key = "\0".join(map(str, key)).encode()
        self._round = 0
        self._pool = 0

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1; limit must be far below 2**64."""
        if self._pool < 1 << 64:
            digest = hashlib.blake2b(b"%d\0%s" % (self._round, self._key)).digest()
            self._pool = int.from_bytes(digest, "little")
            self._round += 1
        self._pool, number = divmod(self._pool, limit)
        return number

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """True in ``share`` (0 to 1) of the cases."""
        return self.below(1 << 32) < share * (1 << 32)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def sample(self, choices: Sequence[T], count: int) -> list[T]:
        """``count`` different ones, at most all."""
        left = list(choices)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]
