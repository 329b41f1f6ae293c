"""World: simulated servers on loopback addresses, which log every request, in a process of its own.

An address may have several names, and each name is a server: with limits, a robots.txt and
redirects of its own."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from email.utils import formatdate
from operator import attrgetter
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import uvloop

from benchmarks.politeness.arrivals import has_gone, receive, stamp
from benchmarks.politeness.limits import MISSING, MOVED, OK, AnyLimit, Limit, Reply
from crawlservice.cli.process_group import die_with_parent

CHECKOUT = Path(__file__).resolve().parents[2]
BACKLOG = 1024  # connections that may wait, for each address
PORTS_TRIED = 50
ROBOTS = "/robots.txt"
ALLOW_ALL = "User-agent: *\nDisallow:\n"
PAGE = b"<!DOCTYPE html>\n<html lang=en><title>A page</title><p>Words on a page.</p></html>\n"
REASONS = {200: "OK", 301: "Moved Permanently", 404: "Not Found",
           429: "Too Many Requests", 503: "Service Unavailable"}  # fmt: skip


class Host(msgspec.Struct):
    """A server. Its pages are below /page/; pages in ``moved`` lead elsewhere."""

    name: str
    address: str = ""  # of 127.0.0.0/8; by default its name
    limit: AnyLimit = msgspec.field(default_factory=Limit)
    dated: bool = False  # Retry-After is a date, rounded up to a second, instead of seconds
    robots: str | None = ALLOW_ALL  # None: there is no robots.txt
    robots_latency: float = 0.0  # seconds
    moved: dict[str, tuple[str, str]] = {}  # path -> name and path


class Entry(NamedTuple):
    """A request. Times in seconds since the epoch."""

    arrived: float  # by the kernel, see arrivals.py
    replied: float
    host: str
    path: str
    status: int  # 0: the client had gone before the reply was sent
    until: float | None = None  # the instant that Retry-After named
    agent: str = ""


class World:
    """``with World(hosts, log) as world: world.url("127.0.1.1", "/page/1")``. ``log`` is the file
    of the log, which is written as requests are answered.

    Raises RuntimeError when it does not start."""

    def __init__(self, hosts: Sequence[Host], log: Path) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.log = log
        self.port = 0  # of all of them, known when they listen
        self._process: subprocess.Popen[str] | None = None

    def url(self, host: str, path: str = "/") -> str:
        """The URL of a page."""
        return f"http://{host}:{self.port}{path}"

    def entries(self) -> list[Entry]:
        """The requests that were answered so far, by their arrival."""
        return read(self.log)

    def __enter__(self) -> World:
        self.log.touch()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.log)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the benchmark, which stops the servers
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode([*self.hosts.values()]).decode())
        self._process.stdin.close()
        port = self._process.stdout.readline()
        if not port:
            raise RuntimeError(f"the servers ended with status {self._process.wait()}")
        self.port = int(port)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def read(log: Path) -> list[Entry]:
    """The requests in a log, by their arrival; a last line that is not complete yet is left out."""
    lines = log.read_text().splitlines(keepends=True)
    return ordered(Entry(*json.loads(line)) for line in lines if line.endswith("\n"))


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """The requests by their arrival."""
    return sorted(entries, key=attrgetter("arrived"))


class _Server:
    """One host, and when its first page was asked for."""

    def __init__(self, host: Host, port: int) -> None:
        self.host = host
        self._port = port
        self._first = 0.0

    def reply(self, path: str, now: float) -> tuple[Reply, str]:
        """The reply to a request that arrives at ``now``, and where it leads."""
        host = self.host
        if path == ROBOTS:
            return Reply(MISSING if host.robots is None else OK, host.robots_latency), ""
        self._first = self._first or now
        reply = host.limit.reply(now - self._first)
        if path in host.moved and reply.status == OK:
            name, target = host.moved[path]
            return reply._replace(status=MOVED), f"http://{name}:{self._port}{target}"
        return reply, ""


class _Conversation:
    """A connection: requests one after another, without pipelining."""

    def __init__(
        self, connection: socket.socket, servers: dict[str, _Server], log: IO[str]
    ) -> None:
        self._connection = connection
        self._servers = servers
        self._log = log

    async def hold(self) -> None:
        """Returns when the client has gone, or has asked for an unknown host."""
        received = b""
        with self._connection, suppress(OSError):
            while True:
                data, arrived = await receive(self._connection)
                received += data
                if received.endswith(b"\r\n\r\n"):
                    request, received = received, b""
                    await self._requested(request, arrived)
                elif not data:
                    return

    async def _requested(self, request: bytes, arrived: float) -> None:
        lines = request.decode("latin-1").splitlines()
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        name = headers.get("host", "").rpartition(":")[0]
        path = [*lines[0].split(), "", ""][1]
        server = self._servers.get(name)
        if server is None:
            raise ConnectionAbortedError(f"there is no host {name}")
        reply, target = server.reply(path, arrived)
        agent = headers.get("user-agent", "")
        entry = Entry(arrived, arrived, name, path, reply.status, None, agent)
        if reply.latency:
            await asyncio.sleep(reply.latency)
        await self._send(server.host, entry, reply, target)

    async def _send(self, host: Host, entry: Entry, reply: Reply, target: str) -> None:
        now = time.time()
        body = (host.robots or "").encode() if entry.path == ROBOTS else PAGE
        kind = "text/plain" if entry.path == ROBOTS else "text/html; charset=utf-8"
        headers = {"Content-Type": kind, "Content-Length": len(body)}
        until = None
        if target:
            headers["Location"] = target
        if reply.rest is not None:
            until = now + reply.rest
            headers["Retry-After"] = math.ceil(reply.rest)
            if host.dated:
                until = float(math.ceil(until))
                headers["Retry-After"] = formatdate(until, usegmt=True)
        gone = has_gone(self._connection)
        done = entry._replace(replied=now, status=0 if gone else reply.status)
        done = done._replace(until=None if gone else until)
        self._log.write(f"{json.dumps(done)}\n")
        if not gone:
            lines = [f"HTTP/1.1 {reply.status} {REASONS[reply.status]}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            whole = "\r\n".join([*lines, "", ""]).encode() + body
            await asyncio.get_running_loop().sock_sendall(self._connection, whole)


def listen(addresses: Iterable[str]) -> tuple[int, list[socket.socket]]:
    """Listens on the same port of all addresses."""
    for _ in range(PORTS_TRIED):
        port, sockets = 0, []
        try:
            for address in addresses:
                sockets.append(socket.create_server((address, port), backlog=BACKLOG))
                port = sockets[0].getsockname()[1]
        except OSError:
            for one in sockets:
                one.close()
            continue
        return port, sockets
    raise OSError("no port is free on all addresses")


async def _serve(hosts: Sequence[Host], log: Path) -> None:
    """Prints the port when all listen, and serves for ever."""
    port, sockets = listen(dict.fromkeys(host.address or host.name for host in hosts))
    servers = {host.name: _Server(host, port) for host in hosts}
    loop = asyncio.get_running_loop()
    conversations: set[asyncio.Task[None]] = set()

    def accept(listener: socket.socket) -> None:
        with suppress(BlockingIOError):  # accept all that wait
            while True:
                connection, _ = listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stamp(connection)
                one = loop.create_task(_Conversation(connection, servers, lines).hold())
                conversations.add(one)  # the loop itself keeps only a weak reference
                one.add_done_callback(conversations.discard)

    with log.open("a", buffering=1) as lines:
        for one in sockets:
            one.setblocking(False)
            stamp(one)  # so that the kernel notes times from the first packet on
            loop.add_reader(one, accept, one)
        print(port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(msgspec.json.decode(sys.stdin.read(), type=list[Host]), Path(sys.argv[1])))
