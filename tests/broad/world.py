"""World: the simulated hosts in a process of its own, which logs every request.

``python -m tests.broad.world --hosts 1000 --seeds seeds.txt`` serves them until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

import uvloop

from benchmarks.politeness.arrivals import has_gone, receive, stamp
from benchmarks.politeness.world import ROBOTS, Entry, listen, read
from crawlservice.cli.process_group import die_with_parent
from tests.broad.hosts import (
    CALENDAR,
    Host,
    drips,
    hosts,
    page,
    page_number,
    path_of,
    robots_of,
)

CHECKOUT = Path(__file__).resolve().parents[2]
FAILS = 4  # one page of so many fails at first, on a host that does that
DRIP_EVERY = 1.0  # seconds between two bytes
DRIP_LENGTH = 1 << 20  # bytes that are promised
HTML, TEXT = "text/html; charset=utf-8", "text/plain"
REASONS = {200: "OK", 301: "Moved Permanently", 404: "Not Found", 500: "Internal Server Error"}


class World:
    """``with World(1000, log, seeds) as world``: serves so many hosts; the file ``log`` has the
    requests, and ``seeds`` the URL of each host. Raises RuntimeError when it does not start."""

    def __init__(self, count: int, log: Path, seeds: Path) -> None:
        self.hosts = hosts(count)
        self.seeds = seeds
        self._log = log

    def entries(self) -> list[Entry]:
        """The requests that were answered so far, by their arrival."""
        return read(self._log)

    def __enter__(self) -> World:
        words = ["--hosts", len(self.hosts), "--log", self._log, "--seeds", self.seeds]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, words)],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the test, which stops the servers
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"the servers ended with status {self._process.wait()}")
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class _Servers:
    """All hosts and their answers."""

    def __init__(self, all_hosts: tuple[Host, ...], port: int, log: IO[str]) -> None:
        self._hosts = all_hosts
        self._by_name = {host.address: host for host in all_hosts}
        self._port = port
        self._log = log
        self._failed: set[tuple[str, str]] = set()

    async def hold(self, connection: socket.socket) -> None:
        """A connection: requests one after another, without pipelining. Returns when the client has
        gone, or has asked for an unknown host."""
        received = b""
        with connection, suppress(OSError):
            while True:
                data, arrived = await receive(connection)
                received += data
                if received.endswith(b"\r\n\r\n"):
                    request, received = received, b""
                    await self._answer(connection, request, arrived)
                elif not data:
                    return

    async def _answer(self, connection: socket.socket, request: bytes, arrived: float) -> None:
        first, *fields = request.decode("latin-1").split("\r\n")
        named = [field[5:].strip() for field in fields if field[:5].lower() == "host:"]
        name = "".join(named).rpartition(":")[0]
        host = self._by_name.get(name)
        if host is None:
            raise ConnectionAbortedError(f"there is no host {name}")
        target = [*first.split(), "", ""][1]
        if host.kind == "silent":
            await self._ignore(connection, arrived, host, target)
            return
        await asyncio.sleep(host.latency)
        path = target.partition("?")[0]
        number = page_number(path)
        if number is not None and number < host.pages and drips(host, number):
            await _send(connection, _head(200, HTML, DRIP_LENGTH) + b"<!DOCTYPE html>")
            await self._ignore(connection, arrived, host, target, b" ")
            return
        status, kind, body, extra = self._reply(host, target, path, number)
        gone = has_gone(connection)
        self._note(arrived, host, target, 0 if gone else status)
        if not gone:
            await _send(connection, _head(status, kind, len(body), extra) + body)

    def _reply(
        self, host: Host, target: str, path: str, number: int | None
    ) -> tuple[int, str, bytes, str]:
        """Status, type, body and further fields of the reply."""
        if path == ROBOTS:
            return (
                (200, TEXT, robots_of(host).encode(), "") if host.robots else (404, TEXT, b"", "")
            )
        if path.startswith("/old/"):
            return 301, TEXT, b"", f"Location: {path_of(int(path[5:]))}\r\n"
        is_trap = host.kind == "calendar" and path.startswith(CALENDAR)
        if not is_trap and (number is None or number >= host.pages):
            return 404, HTML, b"<p>not here", ""
        fails = host.kind == "failing" and number is not None and number % FAILS == 1
        if fails and (once := (host.address, target)) not in self._failed:
            self._failed.add(once)
            return 500, HTML, b"<p>failed", ""
        session = uuid4().hex if host.kind == "sessions" else ""
        return 200, HTML, page(host, path, self._hosts, self._port, session), ""

    async def _ignore(
        self,
        connection: socket.socket,
        arrived: float,
        host: Host,
        target: str,
        byte: bytes = b"",
    ) -> None:
        """Waits until the client has gone, and sends it a byte now and then."""
        with suppress(OSError):
            for _ in range(DRIP_LENGTH // 2):
                try:
                    await asyncio.wait_for(receive(connection), DRIP_EVERY)
                except TimeoutError:
                    await _send(connection, byte)
                else:
                    break
        self._note(arrived, host, target, 0)

    def _note(self, arrived: float, host: Host, target: str, status: int) -> None:
        entry = Entry(arrived, time.time(), host.address, target, status)
        self._log.write(f"{json.dumps(entry)}\n")


def _head(status: int, kind: str, length: int, extra: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {length}\r\n{extra}\r\n"
    ).encode()


async def _send(connection: socket.socket, data: bytes) -> None:
    if data:
        await asyncio.get_running_loop().sock_sendall(connection, data)


async def _serve(all_hosts: Sequence[Host], log: Path, seeds: Path) -> None:
    """Prints a line when all listen, and serves for ever."""
    port, sockets = listen([host.address for host in all_hosts])
    loop = asyncio.get_running_loop()
    conversations: set[asyncio.Task[None]] = set()
    seeds.write_text("".join(f"http://{host.address}:{port}/\n" for host in all_hosts))
    with log.open("a", buffering=1) as lines:
        servers = _Servers(tuple(all_hosts), port, lines)

        def accept(listener: socket.socket) -> None:
            with suppress(BlockingIOError):  # accept all that wait
                while True:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    stamp(connection)
                    one = loop.create_task(servers.hold(connection))
                    conversations.add(one)  # the loop itself keeps only a weak reference
                    one.add_done_callback(conversations.discard)

        for one in sockets:
            one.setblocking(False)
            stamp(one)  # so that the kernel notes times from the first packet on
            loop.add_reader(one, accept, one)
        print(f"{len(all_hosts):,} hosts listen on port {port}; {seeds} names them", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.broad.world",
        description="Serves simulated hosts on addresses of 127.0.0.0/8 until Ctrl-C: of different "
        "sizes and speeds, some of which fail, ask for a delay, or are traps.",
    )
    parser.add_argument("--hosts", type=int, default=1000, help="(1000)")
    parser.add_argument("--seeds", type=Path, required=True, help="file for the URLs of the hosts")
    parser.add_argument("--log", type=Path, default=Path("/dev/null"), help="file for the requests")
    options = parser.parse_args()
    try:
        all_hosts = hosts(options.hosts)
    except ValueError as error:
        parser.error(f"--hosts: {error}")
    with suppress(KeyboardInterrupt):
        uvloop.run(_serve(all_hosts, options.log, options.seeds))


if __name__ == "__main__":
    main()
