"""Simulated sockets and selectors: connected pairs within a machine, without system calls."""

from __future__ import annotations

import selectors
from collections.abc import Mapping
from typing import Any

from tests.simulation.scheduler import Process, Scheduler

ROOM = 1 << 18  # bytes that are on their way at most


class Socket:
    """One end of a pair."""

    def __init__(self, world: Sockets, number: int) -> None:
        self._world, self.number = world, number
        self.peer: Socket
        self.data = bytearray()
        self.closed = self.ended = False  # ended: the other end has closed
        self.watchers: set[Selector] = set()
        self.owner: Process | None = None
        self.timeout: float | None = None

    def fileno(self) -> int:
        return -1 if self.closed else self.number

    def setblocking(self, blocking: bool) -> None:
        self.timeout = None if blocking else 0.0

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def own(self, process: Process) -> None:
        """The process that closes it by its death."""
        if self.owner is not None:
            self.owner.sockets.discard(self)
        self.owner = process
        process.sockets.add(self)

    @property
    def readable(self) -> bool:
        return bool(self.data) or self.ended or self.closed

    @property
    def writable(self) -> bool:
        return self.ended or len(self.peer.data) < ROOM

    def send(self, data: bytes | bytearray, flags: int = 0) -> int:
        self._world.check_alive()
        if self.closed:
            raise OSError(9, "Bad file descriptor")
        if self.ended:
            raise BrokenPipeError(32, "Broken pipe")
        room = ROOM - len(self.peer.data)
        if room <= 0:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.peer.data += data[:room]
        self.peer.changed()
        return min(room, len(data))

    def recv(self, size: int, flags: int = 0) -> bytes:
        self._world.check_alive()
        if self.closed:
            raise OSError(9, "Bad file descriptor")
        while not self.data and not self.ended:
            if self.timeout == 0.0:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            selector = Selector(self._world.scheduler, self._world)
            selector.register(self, selectors.EVENT_READ)
            ready = selector.select(self.timeout)
            selector.close()
            if not ready:
                raise TimeoutError("timed out")
        taken = bytes(self.data[:size])
        full = len(self.data) >= ROOM
        del self.data[:size]
        if full:
            self.peer.changed()
        return taken

    def feed_peer(self, data: bytes) -> None:
        """Writes what the kernel writes, whatever the process does."""
        if not self.closed and not self.ended:
            self.peer.data += data
            self.peer.changed()

    def shutdown(self, how: int) -> None:
        self.peer.ended = self.ended = True
        self.peer.changed()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._world.forget(self)
        if self.owner is not None:
            self.owner.sockets.discard(self)
        self.peer.ended = True
        self.peer.changed()

    def close_by_death(self) -> None:
        self.owner = None
        self.close()

    def changed(self) -> None:
        for watcher in self.watchers:
            watcher.notice()


class Sockets:
    """All simulated sockets, by number."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._all: dict[int, Socket] = {}
        self._next = 100_000

    def pair(self, *options: Any, **more: Any) -> tuple[Socket, Socket]:
        """In place of socket.socketpair."""
        near, far = self._make(), self._make()
        near.peer, far.peer = far, near
        if (thread := self.scheduler.current) is not None:
            near.own(thread.process)
            far.own(thread.process)
        return near, far

    def _make(self) -> Socket:
        self._next += 1
        made = self._all[self._next] = Socket(self, self._next)
        return made

    def forget(self, socket: Socket) -> None:
        self._all.pop(socket.number, None)

    def of(self, file: Any) -> Socket:
        """By a number or by anything with one."""
        number = file if isinstance(file, int) else file.fileno()
        try:
            return self._all[number]
        except KeyError:
            raise ValueError(f"no simulated socket has the number {number}") from None

    def check_alive(self) -> None:
        from tests.simulation.scheduler import Killed

        thread = self.scheduler.current
        if thread is not None and not thread.process.alive:
            raise Killed

    def select(
        self, reading: list[Any], writing: list[Any], bad: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """In place of select.select."""
        with Selector(self.scheduler, self) as selector:
            for file in reading:
                selector.register(file, selectors.EVENT_READ, file)
            for file in writing:
                selector.register(file, selectors.EVENT_WRITE, file)
            ready = selector.select(timeout)
        return (
            [key.data for key, events in ready if events & selectors.EVENT_READ],
            [key.data for key, events in ready if events & selectors.EVENT_WRITE],
            [],
        )


class Selector(selectors.BaseSelector):
    """In place of selectors.DefaultSelector."""

    def __init__(self, scheduler: Scheduler, sockets: Sockets) -> None:
        self._scheduler, self._sockets = scheduler, sockets
        self._keys: dict[Socket, selectors.SelectorKey] = {}
        self._waiting: Any = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        socket = self._sockets.of(fileobj)
        if socket in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        key = self._keys[socket] = selectors.SelectorKey(fileobj, socket.number, events, data)
        socket.watchers.add(self)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        socket = self._find(fileobj)
        socket.watchers.discard(self)
        return self._keys.pop(socket)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        socket = self._find(fileobj)
        key = self._keys[socket] = self._keys[socket]._replace(events=events, data=data)
        return key

    def _find(self, fileobj: Any) -> Socket:
        for socket, key in self._keys.items():
            if key.fileobj is fileobj or key.fd == fileobj:
                return socket
        raise KeyError(f"{fileobj!r} is not registered")

    def notice(self) -> None:
        if self._waiting is not None:
            self._scheduler.wake(self._waiting)

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for socket, key in self._keys.items():
            events = 0
            if key.events & selectors.EVENT_READ and socket.readable:
                events |= selectors.EVENT_READ
            if key.events & selectors.EVENT_WRITE and socket.writable:
                events |= selectors.EVENT_WRITE
            if events:
                found.append((key, events))
        return found

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._ready()
        if ready or (timeout is not None and timeout <= 0):
            self._scheduler.wait(0.0)  # other threads run as well
            return self._ready()
        self._waiting = self._scheduler.current
        try:
            self._scheduler.wait(timeout)
        finally:
            self._waiting = None
        return self._ready()

    def close(self) -> None:
        for socket in self._keys:
            socket.watchers.discard(self)
        self._keys.clear()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {key.fd: key for key in self._keys.values()}

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[self._find(fileobj)]
