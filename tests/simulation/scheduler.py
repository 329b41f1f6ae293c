"""Scheduler: simulated time, processes and threads. A thread is a greenlet that runs until it
waits; a seeded random number generator decides which of the due threads goes first. So the same
seed gives the same run, step by step."""

from __future__ import annotations

import asyncio
import heapq
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from zlib import crc32

from greenlet import getcurrent, greenlet

SWITCH = 0.00002  # seconds that a step of a thread takes at most
STEP = struct.Struct("!dQ")
set_running_loop = asyncio._set_running_loop


class Killed(BaseException):
    """Ends the threads of a process that was killed; no handler of the program sees more."""


class Exited(BaseException):
    """Ends the thread that called os._exit."""


class Thread:
    """One thread of a simulated process."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "current_loop",
        "ended",
        "greenlet",
        "ident",
        "locals",
        "name",
        "process",
        "token",
        "woken",
    )

    def __init__(self, process: Process, name: str, main: Callable[[], object], ident: int) -> None:
        self.process, self.name, self.ident = process, name, ident
        self.greenlet = greenlet(lambda: process.scheduler._run(self, main))
        self.ended = False
        self.token = 0  # of the wake-up that counts; earlier ones are void
        self.woken = False  # whether it was woken before its time was over
        self.current_loop: Any = None
        self.locals: dict[object, Any] = {}


class Process:
    """One process of a simulated machine. ``clock``: seconds that its machine's time of day is
    ahead."""

    def __init__(self, scheduler: Scheduler, machine: Machine, pid: int, role: str) -> None:
        self.scheduler, self.machine, self.pid, self.role = scheduler, machine, pid, role
        self.parent: Process | None = None
        self.children: list[Process] = []
        self.ended: list[tuple[int, int]] = []  # pid and status of children not waited for yet
        self.threads: list[Thread] = []
        self.sockets: set[Any] = set()
        self.handlers: dict[int, Any] = {}
        self.wakeup: Any = None  # the socket that a signal writes to
        self.status: int | None = None  # as of os.waitpid, when it has ended
        self.born = scheduler.now
        self.paused_until = 0.0
        self.namespace: dict[str, Any] = {}  # values of the simulation

    @property
    def alive(self) -> bool:
        return self.status is None


class Machine:
    """A simulated computer: the processes and the clock of one node. ``clock``: seconds that its
    time of day is ahead; ``drift``: seconds that it gains each second since ``drifts_since``."""

    def __init__(self, name: str, clock: float = 0.0) -> None:
        self.name, self.clock = name, clock
        self.drift = self.drifts_since = 0.0
        self.processes: list[Process] = []

    def ahead(self, now: float) -> float:
        """Seconds that its time of day is ahead at a time of the simulation."""
        return self.clock + self.drift * (now - self.drifts_since)

    def pause(self, until: float) -> None:
        for process in self.processes:
            process.paused_until = until

    def drifts(self, drift: float, now: float) -> None:
        self.clock, self.drift, self.drifts_since = self.ahead(now), drift, now


class Scheduler:
    def __init__(self, seed: int, start: float = 1_000_000_000.0) -> None:
        """``start``: the time of day when the simulation starts, in seconds since 1970."""
        self.random = random.Random(seed)
        self.now = 0.0  # seconds
        self.start = start
        self.steps = 0
        self.trace = 0  # a checksum of all steps
        self.current: Thread | None = None
        self.processes: dict[int, Process] = {}
        self._heap: list[tuple[float, int, Thread, int]] = []
        self._sequence = 0
        self._idents = 1000
        self._pids = 100
        self.on_exit: Callable[[Process], None] = lambda process: None
        self.on_crash: Callable[[Thread | None, BaseException], None] = lambda thread, error: None

    # -- processes and threads --------------------------------------------------------------------

    def process(
        self, machine: Machine, role: str, main: Callable[[], object], parent: Process | None
    ) -> Process:
        """Starts a process. It ends with its parent, as the real ones do on Linux."""
        self._pids += 1
        made = Process(self, machine, self._pids, role)
        made.parent = parent
        if parent is not None:
            parent.children.append(made)
        machine.processes.append(made)
        self.processes[made.pid] = made
        self.thread(made, "main", lambda: self._main(made, main))
        return made

    def thread(self, process: Process, name: str, main: Callable[[], object]) -> Thread:
        self._idents += 1
        made = Thread(process, name, main, self._idents)
        process.threads.append(made)
        self.wake(made)
        return made

    def _main(self, process: Process, main: Callable[[], object]) -> None:
        status = 1
        try:
            main()
            status = 0
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 1
        self.exit(process, status << 8)

    def _run(self, thread: Thread, main: Callable[[], object]) -> None:
        with suppress(Killed, Exited):
            main()
        thread.ended = True
        thread.token += 1

    def exit(self, process: Process, status: int) -> None:
        """Ends a process from inside: os._exit, or the end of its main thread."""
        self.kill(process, status)
        raise Killed

    def kill(self, process: Process, status: int = 9) -> None:
        """Ends a process at once, with its children: SIGKILL, or the death of their parent."""
        if process.status is not None:
            return
        process.status = status
        for socket in sorted(process.sockets, key=lambda one: one.number):
            socket.close_by_death()
        process.sockets.clear()
        for thread in [*process.threads]:
            if thread is not self.current:
                self._end(thread)
        parent = process.parent
        for child in [*process.children]:
            self.kill(child)
        if parent is not None and parent.alive:
            parent.children.remove(process)
            parent.ended.append((process.pid, status))
            self.signal(parent, 17)
        process.machine.processes.remove(process)
        self.on_exit(process)
        if self.current is not None and self.current.process is process:
            raise Killed

    def _end(self, thread: Thread) -> None:
        """Throws Killed into a thread until it has ended. The program runs no step further: every
        call that waits or acts raises again."""
        if thread.ended:
            return
        if not thread.greenlet:  # it has not begun
            thread.ended = True
            thread.token += 1
            return
        before, self.current = self.current, thread
        for _ in range(100):
            thread.token += 1
            set_running_loop(None)
            thread.greenlet.parent = getcurrent()
            thread.greenlet.throw(Killed)
            if thread.greenlet.dead:
                break
        else:
            raise RuntimeError(f"{thread.name} of {thread.process.role} does not die")
        thread.ended = True
        self.current = before

    def signal(self, process: Process, number: int) -> None:
        """Delivers a signal."""
        if not process.alive:
            raise ProcessLookupError(process.pid)
        if number == 9:
            self.kill(process)
            return
        handler = process.handlers.get(number)
        if callable(handler):
            handler(number, None)
            if process.wakeup is not None:
                process.wakeup.feed_peer(bytes([number]))
        elif number in (1, 2, 15) and handler is None:
            self.kill(process, number)

    # -- waiting ----------------------------------------------------------------------------------

    def wait(self, seconds: float | None) -> bool:
        """The current thread waits for so many seconds. Returns whether it was woken before."""
        thread = self.current
        assert thread is not None, "outside of the simulation nothing waits"
        if not thread.process.alive:
            raise Killed
        thread.token += 1
        thread.woken = False
        if seconds is not None:
            self._push(self.now + max(0.0, seconds) + SWITCH * self.random.random(), thread)
        thread.current_loop = asyncio._get_running_loop()
        self._hub_of(thread).switch()
        if not thread.process.alive:
            raise Killed
        return thread.woken

    def _hub_of(self, thread: Thread) -> greenlet:
        found = thread.greenlet.parent
        assert found is not None
        return found

    def wake(self, thread: Thread) -> None:
        """Makes a thread continue soon."""
        if thread.ended or thread.woken:
            return
        thread.woken = True
        thread.token += 1
        self._push(self.now + SWITCH * self.random.random(), thread)

    def _push(self, when: float, thread: Thread) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (when, self._sequence, thread, thread.token))

    def run(self, until: float) -> None:
        """Runs the threads until that time; the caller is not one of them."""
        heap = self._heap
        hub = getcurrent()
        while heap:
            when, _, thread, token = heap[0]
            if when > until:
                break
            heapq.heappop(heap)
            if token != thread.token or thread.ended:
                continue
            if thread.process.paused_until > when:
                self._push(thread.process.paused_until, thread)
                continue
            if when > self.now:
                self.now = when
            self.steps += 1
            self.trace = crc32(STEP.pack(when, thread.ident), self.trace)
            self.current = thread
            set_running_loop(thread.current_loop)
            thread.greenlet.parent = hub
            thread.greenlet.switch()
            self.current = None
        set_running_loop(None)
        self.now = max(self.now, until)
