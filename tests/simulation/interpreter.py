"""Interpreter: replaces what Python programs get from the system - time, sleep, processes, threads,
locks, queues, signals, sockets, random bytes - by the simulation's. Called before the product is
imported, in a process that does nothing else."""

from __future__ import annotations

import asyncio
import datetime
import os
import queue
import random
import select
import selectors
import signal
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.utils import timezone

from tests.simulation.scheduler import Killed, Machine, Process, Scheduler, Thread
from tests.simulation.sockets import Selector, Sockets


class System:
    """The system under the program; ``scheduler`` is replaced for each seed."""

    def __init__(self) -> None:
        self.use(0)

    def use(self, seed: int) -> None:
        self.scheduler = Scheduler(seed)
        self.sockets = Sockets(self.scheduler)
        self.entropy = random.Random(seed ^ 0x5EED)
        random.seed(seed)
        self.network = self.scheduler.process(
            Machine("network"), "network", lambda: self.scheduler.wait(None), None
        )

    @property
    def thread(self) -> Thread | None:
        return self.scheduler.current

    @property
    def process(self) -> Process | None:
        thread = self.scheduler.current
        return thread.process if thread is not None else None

    def time(self) -> float:
        process = self.process
        ahead = process.machine.ahead(self.scheduler.now) if process is not None else 0.0
        return self.scheduler.start + self.scheduler.now + ahead


SYSTEM = System()
# Of the machine that simulates: its clock in seconds, and the end of this process.
real_clock, real_exit = time.perf_counter, os._exit
_outside_locals: dict[object, Any] = {}


def monotonic() -> float:
    return SYSTEM.scheduler.now


def now() -> float:
    return SYSTEM.time()


def sleep(seconds: float) -> None:
    if SYSTEM.thread is None:
        raise RuntimeError("nothing outside of the simulation sleeps")
    SYSTEM.scheduler.wait(seconds)


# -- threads ---------------------------------------------------------------------------------------


class Waiters:
    """Threads that wait for something, in their order."""

    def __init__(self) -> None:
        self._threads: deque[Thread] = deque()

    def wait(self, seconds: float | None) -> bool:
        """Whether it was woken before the seconds were over."""
        thread = SYSTEM.thread
        assert thread is not None
        self._threads.append(thread)
        try:
            return SYSTEM.scheduler.wait(seconds)
        finally:
            if thread in self._threads:
                self._threads.remove(thread)

    def wake_one(self) -> None:
        while self._threads:
            thread = self._threads.popleft()
            if not thread.ended and not thread.woken:
                SYSTEM.scheduler.wake(thread)
                return

    def wake_all(self) -> None:
        while self._threads:
            SYSTEM.scheduler.wake(self._threads.popleft())


class Lock:
    """In place of threading.Lock."""

    def __init__(self) -> None:
        self._held = False
        self._waiters = Waiters()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._held:
            self._held = True
            return True
        if not blocking:
            return False
        end = None if timeout < 0 else SYSTEM.scheduler.now + timeout
        while self._held:
            left = None if end is None else end - SYSTEM.scheduler.now
            if left is not None and left <= 0:
                return False
            self._waiters.wait(left)
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        self._waiters.wake_one()

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._held = False


class RLock(Lock):
    """In place of threading.RLock."""

    def __init__(self) -> None:
        super().__init__()
        self._owner: object = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = SYSTEM.thread
        if self._held and self._owner is me:
            self._count += 1
            return True
        if super().acquire(blocking, timeout):
            self._owner, self._count = me, 1
            return True
        return False

    def release(self) -> None:
        self._count -= 1
        if self._count <= 0:
            self._owner, self._count = None, 0
            super().release()

    def _is_owned(self) -> bool:
        return self._held and self._owner is SYSTEM.thread

    def _release_save(self) -> int:
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count


class Event:
    """In place of threading.Event."""

    def __init__(self) -> None:
        self._set = False
        self._waiters = Waiters()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._waiters.wake_all()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._waiters.wait(timeout)
        return self._set


class ThreadObject:
    """In place of threading.Thread."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Any = (),
        kwargs: Any = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self.name, self.daemon = name or "thread", daemon
        self._thread: Thread | None = None
        self._over = Event()

    def start(self) -> None:
        process = SYSTEM.process
        assert process is not None, "outside of the simulation no thread starts"
        self._thread = SYSTEM.scheduler.thread(process, self.name, self._begin)

    def _begin(self) -> None:
        try:
            self.run()
        except (Killed, GeneratorExit):
            raise
        except BaseException as error:
            SYSTEM.scheduler.on_crash(SYSTEM.thread, error)
        finally:
            self._over.set()

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._over.is_set()

    def join(self, timeout: float | None = None) -> None:
        self._over.wait(timeout)

    @property
    def ident(self) -> int | None:
        return self._thread.ident if self._thread is not None else None

    native_id = ident


class _ThisThread:
    """threading.current_thread() for all that is no ThreadObject."""

    name, daemon = "MainThread", False

    @property
    def ident(self) -> int:
        return get_ident()


_this_thread = _ThisThread()


def get_ident() -> int:
    thread = SYSTEM.thread
    return thread.ident if thread is not None else 1


class Local:
    """In place of threading.local, also as a base class."""

    def __new__(cls, *args: Any, **options: Any) -> Local:
        made = object.__new__(cls)
        object.__setattr__(made, "_made_with", (args, options))
        return made

    def _values(self) -> dict[str, Any]:
        thread = SYSTEM.thread
        storage = thread.locals if thread is not None else _outside_locals
        found: dict[str, Any] | None = storage.get(self)
        if found is None:
            found = storage[self] = {}
            if type(self).__init__ is not object.__init__:
                args, options = object.__getattribute__(self, "_made_with")
                type(self).__init__(self, *args, **options)
        return found

    def __getattribute__(self, name: str) -> Any:
        if name in ("_values", "__class__"):
            return object.__getattribute__(self, name)
        values = object.__getattribute__(self, "_values")()
        if name == "__dict__":
            return values
        if name in values:
            return values[name]
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self._values()[name]
        except KeyError:
            raise AttributeError(name) from None


class SimpleQueue:
    """In place of queue.SimpleQueue."""

    def __init__(self) -> None:
        self._entries: deque[Any] = deque()
        self._waiters = Waiters()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._entries.append(item)
        self._waiters.wake_one()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        end = None if timeout is None else SYSTEM.scheduler.now + timeout
        while not self._entries:
            left = None if end is None else end - SYSTEM.scheduler.now
            if not block or (left is not None and left <= 0):
                raise queue.Empty
            self._waiters.wait(left)
        return self._entries.popleft()

    def empty(self) -> bool:
        return not self._entries

    def qsize(self) -> int:
        return len(self._entries)


# -- event loops -----------------------------------------------------------------------------------


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, over simulated sockets; work for threads runs in simulated ones."""

    def __init__(self) -> None:
        super().__init__(Selector(SYSTEM.scheduler, SYSTEM.sockets))

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future = self.create_future()
        process = SYSTEM.process
        assert process is not None

        def settle(error: BaseException | None, result: Any) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        def work() -> None:
            error, result = None, None
            try:
                result = func(*args)
            except Killed:
                raise
            except BaseException as raised:
                error = raised
            if not self.is_closed():
                self.call_soon_threadsafe(settle, error, result)

        SYSTEM.scheduler.thread(process, "executor", work)
        return future

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        with suppress(Killed):  # the loop of a dead process closes nothing
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]


def run_loop(main: Any) -> Any:
    """In place of uvloop.run and asyncio.run."""
    loop = EventLoop()
    SYSTEM.process.namespace["loop"] = loop  # type: ignore[union-attr]
    return loop.run_until_complete(main)


async def wait_for(what: Any, seconds: float | None) -> Any:
    """In place of asyncio.wait_for: without a task of its own, as Python 3.12 and later do it."""
    async with asyncio.timeout(seconds):
        return await what


def close_tasks(process: Process) -> None:
    """Ends the coroutines of a dead process here and now, not when memory is collected."""
    loop = process.namespace.pop("loop", None)
    if loop is None:
        return
    tasks: list[Any] = sorted(asyncio.all_tasks(loop), key=lambda one: one.get_name())
    for task in tasks:
        task._log_destroy_pending = False
        try:
            task.get_coro().close()
        except BaseException:  # its clean-up fails, as the loop has gone
            pass


# -- processes and signals -------------------------------------------------------------------------


def getpid() -> int:
    process = SYSTEM.process
    return process.pid if process is not None else 1


def getppid() -> int:
    process = SYSTEM.process
    if process is None or process.parent is None:
        return 1
    return process.parent.pid


def kill(pid: int, number: int) -> None:
    found = SYSTEM.scheduler.processes.get(pid)
    if found is None:
        raise ProcessLookupError(3, "No such process")
    if found.alive:
        SYSTEM.scheduler.signal(found, int(number))
    elif found.parent is None or pid not in (ended for ended, _ in found.parent.ended):
        raise ProcessLookupError(3, "No such process")  # its parent has waited for it


def exit_now(status: int) -> None:
    process = SYSTEM.process
    assert process is not None
    SYSTEM.scheduler.exit(process, status << 8)


def waitpid(pid: int, options: int) -> tuple[int, int]:
    process = SYSTEM.process
    assert process is not None
    if process.ended:
        return process.ended.pop(0)
    if not process.children:
        raise ChildProcessError(10, "No child processes")
    return 0, 0


def set_signal(number: int, handler: Any) -> Any:
    process = SYSTEM.process
    if process is None:
        return signal.SIG_DFL
    before = process.handlers.get(number, signal.SIG_DFL)
    process.handlers[number] = handler
    return before


def get_signal(number: int) -> Any:
    process = SYSTEM.process
    return process.handlers.get(number, signal.SIG_DFL) if process is not None else signal.SIG_DFL


def set_wakeup_fd(fd: int, *, warn_on_full_buffer: bool = True) -> int:
    process = SYSTEM.process
    if process is not None:
        process.wakeup = None if fd < 0 else SYSTEM.sockets.of(fd)
    return -1


def urandom(size: int) -> bytes:
    return SYSTEM.entropy.randbytes(size)


def _sigmask(how: int, mask: Any) -> set[int]:
    return set()


def _uuid4() -> uuid.UUID:
    return uuid.UUID(bytes=urandom(16), version=4)


def _utc_now() -> datetime.datetime:
    return datetime.datetime.fromtimestamp(now(), datetime.UTC)


REPLACED: dict[Any, dict[str, Any]] = {
    time: {
        "monotonic": monotonic,
        "monotonic_ns": lambda: int(monotonic() * 1e9),
        "perf_counter": monotonic,
        "perf_counter_ns": lambda: int(monotonic() * 1e9),
        "process_time": lambda: 0.0,
        "sleep": sleep,
        "thread_time": lambda: 0.0,
        "time": now,
        "time_ns": lambda: int(now() * 1e9),
    },
    timezone: {"now": _utc_now},
    os: {
        "_exit": exit_now,
        "getpid": getpid,
        "getppid": getppid,
        "kill": kill,
        "nice": lambda increment: 0,
        "urandom": urandom,
        "waitpid": waitpid,
    },
    random: {"_urandom": urandom},
    uuid: {"uuid4": _uuid4},
    signal: {
        "getsignal": get_signal,
        "pthread_sigmask": _sigmask,
        "set_wakeup_fd": set_wakeup_fd,
        "signal": set_signal,
    },
    threading: {
        "Event": Event,
        "Lock": Lock,
        "RLock": RLock,
        "Thread": ThreadObject,
        "_allocate_lock": Lock,  # of conditions
        "current_thread": lambda: _this_thread,
        "get_ident": get_ident,
        "local": Local,
        "main_thread": lambda: _this_thread,
    },
    queue: {"SimpleQueue": SimpleQueue},
    socket: {"socketpair": lambda *o, **m: SYSTEM.sockets.pair(*o, **m)},
    select: {"select": lambda r, w, x, t=None: SYSTEM.sockets.select(r, w, x, t)},
    selectors: {"DefaultSelector": lambda: Selector(SYSTEM.scheduler, SYSTEM.sockets)},
    asyncio: {"run": run_loop, "wait_for": wait_for},
}


def install() -> None:
    """Replaces all of it, for the rest of this process."""
    for module, names in REPLACED.items():
        for name, value in names.items():
            setattr(module, name, value)
