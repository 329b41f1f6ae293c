"""TransferMemory: the bytes that the bodies of all transfers of a process may hold together, and
the order in which waiting transfers receive more."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import math
import threading
import time
from collections.abc import Callable

SMALL_BODY = 1 << 20  # bytes for which a transfer never waits
STEP = 1 << 20  # least number of bytes granted at a time to a larger one
FREE = 1 << 16  # bytes of a transfer that are not counted: most pages are no larger

LARGE_BLOCK = 4 << 20  # bytes from which a freed block of memory is returned to the system
KEPT_BYTES = 16 << 20  # bytes of free memory that the allocator may keep at the end of an arena
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # of malloc.h

_numbers = itertools.count()


class TransferMemory:
    """Grants up to ``limit`` bytes. Each transfer counts its bytes in an ``Account``.

    A transfer never waits for its first SMALL_BODY bytes. Beyond that it waits until its bytes fit,
    the oldest first. When all large transfers wait, the oldest continues regardless: one can always
    finish. So at most ``limit``, one transfer, and SMALL_BODY for each are held. Thread-safe."""

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0
        self._lock = threading.Lock()
        self._large: set[Account] = set()
        self._waiting: dict[Account, tuple[int, Callable[[], None]]] = {}

    def account(self) -> Account:
        return Account(self)

    @property
    def waiting(self) -> int:
        """Number of transfers that wait."""
        return len(self._waiting)

    def grow(self, account: Account, size: int, wake: Callable[[], None]) -> bool:
        """Grants ``account`` ``size`` bytes more. False: it must wait, and ``wake`` is called, in
        any thread, when it has them."""
        with self._lock:
            if (
                account.closed
            ):  # its thread has not noticed yet; the bytes that it reads are dropped
                return True
            if account.held + size <= SMALL_BODY or (
                not self._waiting and self.held + size <= self.limit
            ):
                self._set(account, account.held + size)
                return True
            account.wait_begins()
            self._waiting[account] = size, wake
            others = self._grant()
            granted = account not in self._waiting
        for other in others:
            if other is not wake:
                other()
        return granted

    def shrink(self, account: Account, held: int, closed: bool = False) -> None:
        """Sets the bytes that ``account`` holds. If it waits for more, it is woken without them.
        ``closed``: it is granted no more."""
        with self._lock:
            account.closed |= closed
            given_up = self._waiting.pop(account, None)
            if account.held == held and given_up is None:  # most transfers, and none gains by it
                return
            account.wait_ends()
            self._set(account, held)
            wakes = self._grant()
        if given_up is not None:
            wakes.append(given_up[1])
        for wake in wakes:
            wake()

    def _set(self, account: Account, held: int) -> None:
        self.held += held - account.held
        self.peak = max(self.peak, self.held)
        account.held = held
        account.room = max(FREE, held)
        if held > SMALL_BODY:
            self._large.add(account)
        else:
            self._large.discard(account)

    def _grant(self) -> list[Callable[[], None]]:
        """Grants memory to waiting transfers if possible; the returned functions wake them."""
        wakes = []
        while self._waiting:
            oldest = min(self._waiting, key=lambda account: account.number)
            size, wake = self._waiting[oldest]
            if self.held + size > self.limit and not self._large <= self._waiting.keys():
                break
            del self._waiting[oldest]
            oldest.wait_ends()
            self._set(oldest, oldest.held + size)
            wakes.append(wake)
        return wakes


class Account:
    """The memory of one transfer, from its first byte until its body is no longer needed.

    Use it as a context manager, or call ``close``. Use it from one task or thread at a time."""

    def __init__(self, memory: TransferMemory) -> None:
        self.number = next(_numbers)
        self.held = 0  # bytes counted for it
        self.room = FREE  # bytes it may take before it has to ask for more
        self.closed = False
        self.in_advance = False  # transfers reserve the largest body before they start
        self._memory = memory
        self._held: list[Callable[[], None]] = []  # releases of other objects that are held as long
        self._used = 0  # bytes taken so far
        self._waited = 0.0
        self._since: float | None = None  # when its current wait began

    def take(self, size: int, wake: Callable[[], None]) -> bool:
        """Counts ``size`` bytes. False: not yet; call it again after ``wake`` is called."""
        used = self._used + size
        if used > self.room:
            lacking = used - self.held
            if used > SMALL_BODY:
                lacking = max(lacking, STEP)
            if not self._memory.grow(self, lacking, wake):
                return False
        self._used = used
        return True

    async def reserve(self, size: int) -> None:
        """Counts ``size`` bytes, waiting for them if necessary."""
        given = asyncio.Event()
        while not self.take(size, waker(asyncio.get_running_loop(), given.set)):
            await given.wait()
            given.clear()

    async def make_room(self, size: int) -> None:
        """Waits until it holds ``size`` bytes that are not used yet."""
        await self.reserve(size)
        self._used -= size

    def restart(self) -> None:
        """Called when the transfer starts again, with the memory it holds."""
        self._used = 0

    def settle(self, used: int) -> None:
        """Sets the bytes that it holds, and ends its wait."""
        self._used = used
        counted = used if used > FREE else 0
        if self.held != counted or self._since is not None:
            self._memory.shrink(self, counted)

    def give_up(self) -> None:
        """Stops waiting for memory; the waiting task or thread is woken."""
        if self._since is not None:
            self._memory.shrink(self, self.held)

    def hold(self, release: Callable[[], None]) -> None:
        """``release`` is called when the body is no longer needed, or its transfer repeated."""
        self._held.append(release)

    def release(self) -> None:
        """Releases the other objects."""
        while self._held:
            self._held.pop()()

    def close(self) -> None:
        self.release()
        # Under the lock, whatever it seems to hold: an abandoned thread may be growing it.
        self._used = 0
        self._memory.shrink(self, 0, closed=True)

    @property
    def waited(self) -> float:
        """Seconds spent waiting so far."""
        since = self._since
        return self._waited + (time.monotonic() - since if since is not None else 0.0)

    def wait_begins(self) -> None:
        if self._since is None:
            self._since = time.monotonic()

    def wait_ends(self) -> None:
        if self._since is not None:
            self._waited += time.monotonic() - self._since
            self._since = None

    def __enter__(self) -> Account:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def waker(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> Callable[[], None]:
    """A function that calls ``call`` in the loop, from any thread; does nothing if it is closed."""

    def wake() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    return wake


def return_large_blocks() -> None:
    """Makes glibc's allocator return freed blocks of the size of large bodies. By default it learns
    to keep them, in each thread's arena: 16 threads that had a body of 31 MB each, one after
    another, would hold 500 MB. Does nothing with other C libraries."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
