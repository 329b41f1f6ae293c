"""RunningMarks: shared memory where each worker marks the requests whose callbacks run."""

from __future__ import annotations

import mmap

SIZE = 16  # bytes of a rid
NONE = bytes(SIZE)
LOOP = 0  # the slot of the callback that holds the event loop
STEPS = 1  # a number that changes when that leaves the loop to others and comes back
THREADS = 2  # the first of the slots for threads


class RunningMarks:
    """Created by the master before it forks; a worker has a place number. Memory that is never
    written costs nothing."""

    def __init__(self, places: int, threads: int) -> None:
        self._slots = THREADS + threads
        self._memory = mmap.mmap(-1, SIZE * self._slots * places)
        self._free = list(range(places))

    def take(self) -> int:
        """A free place, unmarked. Raises IndexError when all are taken."""
        place = self._free.pop()
        for slot, mark in enumerate(self._of(place)):
            if mark != NONE:
                self.write(place, slot, b"")
        return place

    def give_back(self, place: int) -> None:
        self._free.append(place)

    def write(self, place: int, slot: int, rid: bytes) -> None:
        """From now on this slot runs the callback of this request; b"" when it runs none."""
        start = (place * self._slots + slot) * SIZE
        self._memory[start : start + SIZE] = rid or NONE

    def in_loop(self, place: int) -> bytes | None:
        """The request whose callback holds the event loop, or held it when the worker ended."""
        start = (place * self._slots + LOOP) * SIZE
        mark = self._memory[start : start + SIZE]
        return None if mark == NONE else mark

    def steps(self, place: int) -> bytes:
        """A value that changes with each step of an async callback in the event loop."""
        return self._of(place)[STEPS]

    def running(self, place: int) -> frozenset[bytes]:
        """The requests whose callbacks began and have not ended."""
        loop, _, *threads = self._of(place)
        return frozenset((loop, *threads)) - {NONE}

    def _of(self, place: int) -> list[bytes]:
        size = SIZE * self._slots
        memory = self._memory[place * size : (place + 1) * size]
        return [memory[start : start + SIZE] for start in range(0, size, SIZE)]
