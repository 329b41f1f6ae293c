"""BoundedDict: a dict that keeps only its newest keys, as a process's memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """A dict of at most ``most`` keys, the oldest first. A key that is set, again too, is the
    newest; one more than ``most`` removes the oldest, and calls ``on_drop`` with it and its value.

    Threads may share one: each step is one call in C. With others at work it may hold a few keys
    less than ``most``, and for a moment a few more."""

    def __init__(self, most: int, on_drop: Callable[[K, V], object] | None = None) -> None:
        super().__init__()
        self._most, self._on_drop = most, on_drop

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self._most:
            dropped = self.popitem(last=False)
            if self._on_drop is not None:
                self._on_drop(*dropped)

    def use(self, key: K) -> V | None:
        """The value of a key, which becomes the newest; None if there is none."""
        value = self.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread has removed it
                self.move_to_end(key)
        return value
