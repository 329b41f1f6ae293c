"""Real proxies on loopback: HTTP, CONNECT and SOCKS5, each with an address of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import re
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from crawlframe.base.secret import Secret
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.proxies.selector import check_address

SOCKS_REFUSED, SOCKS_FAILED = 5, 1


@dataclass
class ProxyServer:
    """``scheme`` is http or socks5; ``login`` "user:password", or "" for none. ``source``: where it
    connects from. ``dead``: it closes every connection at once. ``refusal``: the status with which
    it answers each CONNECT. ``tls``: of the connections to itself."""

    scheme: str = "http"
    login: str = ""
    source: str = "127.0.0.1"
    port: int = 0
    dead: bool = False
    refusal: int = 0
    tls: ssl.SSLContext | None = None
    uses: Counter[str] = field(default_factory=Counter)  # URL asked for -> times
    names: list[str] = field(default_factory=list)  # hosts that it was asked to resolve
    connections: int = 0
    server: asyncio.Server | None = None
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)  # the loop keeps weak ones

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def line(self) -> str:
        """The proxy as in a list."""
        login = f"{self.login}@" if self.login else ""
        return f"{self.scheme}://{login}127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, ssl=self.tls
        )
        self.port = self.server.sockets[0].getsockname()[1]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not in the task: one that is cancelled before its first step would leave its socket open.
        self.writers.append(writer)
        self.serving.add(task := asyncio.create_task(self._serve(reader, writer)))
        task.add_done_callback(self.serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.dead and self.scheme != "http":
                self.uses["dead"] += 1
            elif self.scheme == "http":
                await self._http(reader, writer)
            else:
                await self._socks(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError):
            pass  # cancelled: a task of a server that ends so is logged by asyncio
        finally:
            writer.close()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            line, *headers = head.decode("latin-1").split("\r\n")
            method, target, _ = line.split(" ")
            fields = {h.partition(":")[0].lower(): h.partition(":")[2].strip() for h in headers}
            if self.dead:
                self.uses["dead check" if "echo" in target else "dead"] += 1
                return
            expected = base64.b64encode(self.login.encode()).decode()
            if self.login and fields.get("proxy-authorization") != f"Basic {expected}":
                self.uses["407"] += 1
                writer.write(b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                continue
            self.uses[target] += 1
            if method == "CONNECT":
                if self.refusal:
                    writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self.refusal)
                    await writer.drain()
                    return
                host, _, port = target.rpartition(":")
                try:
                    there = await self._connect(host, int(port))
                except OSError:
                    writer.write(b"HTTP/1.1 502 Unreachable\r\nContent-Length: 0\r\n\r\n")
                    await writer.drain()
                    return
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                await self._relay(reader, writer, *there)
                return
            _, _, place, path = (*target.split("/", 3), "")[:4]
            host, _, port = place.partition(":")
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            try:
                there_reader, there_writer = await self._connect(host, int(port or 80))
            except OSError:
                writer.write(b"HTTP/1.1 502 Unreachable\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                continue
            passed = [one for one in headers if one and not one.lower().startswith("proxy-")]
            request = "\r\n".join([f"{method} /{path} HTTP/1.1", *passed, "", ""])
            there_writer.write(request.encode("latin-1") + body)
            answer = await there_reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", answer)
            assert length is not None
            answer += await there_reader.readexactly(int(length[1]))
            there_writer.close()
            writer.write(answer)
            await writer.drain()

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if self.login:
            if 2 not in methods:
                self.uses["407"] += 1
                writer.write(b"\x05\xff")
                await writer.drain()
                return
            writer.write(b"\x05\x02")
            _, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            (size,) = await reader.readexactly(1)
            password = await reader.readexactly(size)
            right = user + b":" + password == self.login.encode()
            writer.write(b"\x01\x00" if right else b"\x01\x01")
            await writer.drain()
            if not right:
                self.uses["407"] += 1
                return
        else:
            writer.write(b"\x05\x00")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        elif kind == 3:
            (size,) = await reader.readexactly(1)
            host = (await reader.readexactly(size)).decode()
            self.names.append(host)
        elif kind == 4:
            host = str(ipaddress.IPv6Address(await reader.readexactly(16)))
        else:
            raise ValueError(kind)
        (port,) = struct.unpack(">H", await reader.readexactly(2))
        self.uses[f"{host}:{port}"] += 1
        try:
            there = await self._connect(host, port)
        except OSError:
            writer.write(bytes([5, SOCKS_REFUSED, 0, 1, 0, 0, 0, 0, 0, 0]))
            await writer.drain()
            return
        writer.write(bytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
        await self._relay(reader, writer, *there)

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to this machine, by any name."""
        if not host.replace(".", "").isdigit():
            host = "127.0.0.1"
        there = await asyncio.open_connection(host, port, local_addr=(self.source, 0))
        self.writers.append(there[1])
        return there

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there_reader: asyncio.StreamReader,
        there_writer: asyncio.StreamWriter,
    ) -> None:
        async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await writer.drain()
        await asyncio.gather(pipe(reader, there_writer), pipe(there_reader, writer))


@contextlib.contextmanager
def running(*proxies: ProxyServer) -> Iterator[None]:
    """Runs proxies in a thread of this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    for proxy in proxies:
        asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(30)

    async def stop() -> None:
        servers = [proxy.server for proxy in proxies if proxy.server is not None]
        for server in servers:
            for socket in server.sockets:
                loop.remove_reader(socket.fileno())  # it accepts no more
        # Accepted connections get their transports in the loop. CPython leaves those open whose
        # server is closed before.
        await asyncio.sleep(0.05)
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for proxy in proxies:
            for writer in proxy.writers:
                # CPython raises it for a transport that was closed before its last bytes were sent.
                with contextlib.suppress(AttributeError):
                    writer.transport.abort()
        await asyncio.sleep(0.05)  # transports close in the loop

    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


Start = Callable[..., ProxyServer]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts proxies that run until the test ends."""
    with contextlib.ExitStack() as stack:

        def begin(scheme: str = "http", login: str = "", **fields: Any) -> ProxyServer:
            proxy = ProxyServer(scheme, login, **fields)
            stack.enter_context(running(proxy))
            return proxy

        yield begin


def of_pool(proxy: ProxyServer, scheme: str = "", password: str = "") -> ChosenProxy:
    """The proxy as one of the pool, with its login or another password."""
    user, _, own = proxy.login.partition(":")
    address = check_address(f"{scheme or proxy.scheme}://127.0.0.1:{proxy.port}")
    return ChosenProxy(7, *address, user, Secret(password or own))
