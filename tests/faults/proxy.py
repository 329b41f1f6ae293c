"""Proxy: sits in front of a server, and loses messages that a test wants lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHUNK = 1 << 16  # bytes

Place = Path | int  # a unix socket, or a port of this machine


class Proxy:
    """``with Proxy(front, back)``: connections to ``front`` are forwarded to ``back``. Runs in a
    thread of its own; its methods may be called from any."""

    def __init__(self, front: Place, back: Place) -> None:
        self._front, self._back = front, back
        self._writers: set[asyncio.StreamWriter] = set()
        self._frozen: set[asyncio.StreamWriter] = set()
        self._lose = self._swallow = 0  # answers
        self.lost = 0

    def lose_answers(self, n: int) -> None:
        """The next n answers get lost and their connections break, after the requests were
        executed."""
        self._call(lambda: setattr(self, "_lose", n))

    def swallow_answers(self, n: int) -> None:
        """The next n answers get lost, and all later ones of their connections, which stay open."""
        self._call(lambda: setattr(self, "_swallow", n))

    def cut(self) -> None:
        """Breaks all connections."""
        self._call(self._abort)

    def freeze(self) -> None:
        """Keeps current connections open, but forwards nothing any more, not even their end."""
        self._call(lambda: self._frozen.update(self._writers))

    def lead_to(self, back: Place) -> None:
        """Forwards new connections to ``back``; current ones stay where they are."""
        self._call(lambda: setattr(self, "_back", back))

    def hold(self, seconds: float) -> None:
        """Forwards nothing for ``seconds``, in either direction, while connections stay open."""

        def begin() -> None:
            self._open.clear()
            self._loop.call_later(seconds, self._open.set)

        self._call(begin)

    def __enter__(self) -> Proxy:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)))
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self._end.set)
        self._thread.join()

    def _call(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._open, self._end = asyncio.Event(), asyncio.Event()
        self._open.set()
        server = await self._listen()
        started.set()
        await self._end.wait()
        server.close()
        self._abort()
        while self._writers:  # each connection sees its end
            await asyncio.sleep(0.01)

    async def _listen(self) -> asyncio.Server:
        if isinstance(self._front, int):
            return await asyncio.start_server(self._accept, "127.0.0.1", self._front)
        self._front.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._accept, self._front)
        self._front.chmod(0o777)
        return server

    def _abort(self) -> None:
        for writer in [*self._writers]:
            writer.transport.abort()

    async def _accept(self, asks: asyncio.StreamReader, told: asyncio.StreamWriter) -> None:
        self._writers.add(told)
        try:
            answers, asked = await connection_to(self._back)
        except OSError:
            self._drop(told)
            return
        self._writers.add(asked)
        with suppress(OSError):
            await asyncio.gather(self._pass(asks, asked), self._pass(answers, told, answer=True))
        self._drop(told)
        self._drop(asked)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        self._frozen.discard(writer)
        writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answer: bool = False
    ) -> None:
        while chunk := await self._read(reader, writer):
            await self._open.wait()
            if answer and self._lose > 0:
                self._lose -= 1
                self.lost += 1
                raise ConnectionResetError
            if answer and self._swallow > 0:
                self._swallow -= 1
                self.lost += 1
                self._frozen.add(writer)
                continue
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError  # one side is gone, so is the other

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        chunk = await reader.read(CHUNK)
        if writer in self._frozen:
            await self._end.wait()
            return b""
        return chunk


async def connection_to(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(place, int):
        return await asyncio.open_connection("127.0.0.1", place)
    return await asyncio.open_unix_connection(place)
