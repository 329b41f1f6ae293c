"""Marks: shared memory in which each worker says whose callback holds its processor."""

from __future__ import annotations

import mmap

SIZE = 16  # bytes of a rid
NONE = bytes(SIZE)


class Marks:
    """Made by the master before it forks; a worker knows its place by number."""

    def __init__(self, places: int) -> None:
        self._memory = mmap.mmap(-1, SIZE * places)
        self._free = list(range(places))

    def take(self) -> int:
        """A free place, unmarked. Raises IndexError when all are taken."""
        place = self._free.pop()
        self.write(place, b"")
        return place

    def give_back(self, place: int) -> None:
        self._free.append(place)

    def write(self, place: int, rid: bytes) -> None:
        """From now on the callback of this request runs; b"" when none does."""
        self._memory[place * SIZE : (place + 1) * SIZE] = rid or NONE

    def read(self, place: int) -> bytes | None:
        """The request whose callback ran last, and did not end."""
        mark = self._memory[place * SIZE : (place + 1) * SIZE]
        return None if mark == NONE else mark
