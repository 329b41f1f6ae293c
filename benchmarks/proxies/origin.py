"""Origin: one server that is all hosts, and knows each proxy by its address. The times at which
requests arrive are the kernel's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import defaultdict
from dataclasses import dataclass, field

from benchmarks.politeness.arrivals import receive, stamp

BODY = b"<html><title>page</title></html>"
ECHO = "echo"  # the host that checks of proxies ask for


@dataclass
class Origin:
    """``banned``: pairs of host and source address that get a 403. ``arrivals``: of each pair, in
    seconds since the epoch; ``pages``: of each host and path."""

    port: int = 0
    arrivals: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    pages: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    banned: set[tuple[str, str]] = field(default_factory=set)

    async def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self._accepting = asyncio.ensure_future(self._accept(listening))

    def stop(self) -> None:
        self._accepting.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        serving = set[asyncio.Task[None]]()
        while True:
            connection, address = await loop.sock_accept(listening)
            connection.setblocking(False)
            stamp(connection)
            task = asyncio.ensure_future(self._serve(connection, address[0]))
            serving.add(task)
            task.add_done_callback(serving.discard)

    async def _serve(self, connection: socket.socket, source: str) -> None:
        loop, data = asyncio.get_running_loop(), b""
        with connection, contextlib.suppress(OSError):
            while True:
                more, at = await receive(connection)
                if not more:
                    return
                data += more
                while b"\r\n\r\n" in data:
                    head, _, data = data.partition(b"\r\n\r\n")
                    await loop.sock_sendall(connection, self._answer(head, source, at))

    def _answer(self, head: bytes, source: str, at: float) -> bytes:
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        host = fields["host"].partition(".")[0]
        status = b"200 OK"
        if host != ECHO:
            self.arrivals[host, source].append(at)
            self.pages[host, first.split(" ")[1]].append(at)
            if (host, source) in self.banned:
                self.refused[host, source].append(at)
                status = b"403 Banned"
        return b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (
            status, len(BODY), BODY,
        )  # fmt: skip
