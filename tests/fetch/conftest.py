"""A real HTTP server on loopback whose answers each test writes, byte by byte where it must."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from crawlframe.conf import Network
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.journey.context import FetchContext, FetchLimits
from crawlframe.fetch.journey.journey import Journey
from crawlframe.fetch.names.resolver import Names
from crawlframe.fetch.requests.downloader import RequestsDownloader as Bare
from crawlframe.request.request import Request
from crawlframe.response.response import Response

CERTIFICATE = Path(__file__).parent / "self_signed.pem"  # for 127.0.0.1, with its key
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


class RequestsDownloader(Bare):
    """A downloader with whole fetches, as CurlDownloader has them."""

    def __init__(
        self, allow: tuple[Network, ...] = (), concurrency: int = 64, names: Names | None = None
    ) -> None:
        super().__init__(allow, concurrency, names or Names())

    async def fetch(
        self,
        request: Request,
        limits: FetchLimits,
        headers: dict[str, str],
        jar: Any = None,
        allowed: Any = None,
        session_factory: Any = None,
    ) -> Response:
        journey = Journey(request, limits, headers, jar, FetchContext(allowed=allowed))
        return await journey.run(partial(self.transfer, factory=session_factory))


@dataclass
class Exchange:
    """One request as the server got it, and the way to answer it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    writer: asyncio.StreamWriter
    sent: int = 0

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    async def send(self, data: bytes) -> None:
        """Raises ConnectionError if the client is gone."""
        self.writer.write(data)
        await self.writer.drain()
        self.sent += len(data)


Handler = Callable[[Exchange], Awaitable[bool | None]]


@dataclass
class Site:
    """``url`` and ``tls_url`` have no trailing slash. A handler that returns True keeps the
    connection open."""

    url: str = ""
    tls_url: str = ""
    seen: list[Exchange] = field(default_factory=list)
    connections: int = 0
    still_open: int = 0
    routes: dict[str, Handler] = field(default_factory=dict)

    def on(self, path: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.routes[path] = handler
            return handler

        return register

    def answer(
        self, path: str, body: bytes = b"", status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"HTTP/1.1 {status} Whatever\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        self.raw(path, head.encode("latin-1") + body, keep=True)

    def raw(self, path: str, data: bytes, keep: bool = False) -> None:
        async def handler(exchange: Exchange) -> bool:
            await exchange.send(data)
            return keep

        self.routes[path] = handler

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.still_open += 1
        try:
            await self._serve(self.connections, reader, writer)
        finally:
            self.still_open -= 1
            writer.close()

    async def _serve(
        self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                start = await reader.readexactly(1)
                if start == b"\x16":  # TLS on the plain port
                    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    break
                head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.rstrip("\r\n").split("\r\n")
                method, target, _ = first.split(" ", 2)
                headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in lines)]
                exchange = Exchange(method, target, headers, b"", connection, writer)
                length = int(exchange.header("content-length") or 0)
                exchange.body = await reader.readexactly(length)
                self.seen.append(exchange)
                handler = self.routes.get(target.partition("?")[0])
                if handler is None:
                    await exchange.send(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
                elif not await handler(exchange):
                    break


@pytest.fixture(scope="session")
def _server() -> Iterator[Site]:
    site = Site()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[asyncio.Server, asyncio.Server]:
        context = tls_context()
        plain = await asyncio.start_server(site.serve, "127.0.0.1", 0, backlog=512)
        return plain, await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=context)

    async def stop() -> None:
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    servers = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    site.url, site.tls_url = f"http://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}"
    yield site
    asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def site(_server: Site) -> Site:
    _server.routes.clear()
    _server.seen.clear()
    _server.connections = _server.still_open = 0
    return _server


class Client:
    """A downloader of one kind. ``run`` passes a new one to a coroutine in a new loop, ``fetch`` is
    the short form for one fetch; loopback is allowed unless the options say otherwise."""

    def __init__(self, kind: type[CurlDownloader] | type[RequestsDownloader]) -> None:
        self.kind = kind

    def run(
        self,
        job: Callable[[Any], Coroutine[Any, Any, Any]],
        allow: tuple[Any, ...] = LOOPBACK,
        concurrency: int = 64,
    ) -> Any:
        async def main() -> Any:
            downloader = self.kind(allow, concurrency)
            try:
                async with asyncio.timeout(60):
                    return await job(downloader)
            finally:
                await downloader.close()

        return uvloop.run(main())

    def fetch(
        self,
        request: Request | str,
        headers: dict[str, str] | None = None,
        *,
        jar: Any = None,
        allowed: Any = None,
        allow: tuple[Any, ...] = LOOPBACK,
        **limits: Any,
    ) -> Response:
        asked = Request(request) if isinstance(request, str) else request

        async def job(downloader: Any) -> Any:
            caps = FetchLimits(**limits)
            own = {**asked.headers, **(headers or {})}
            return await downloader.fetch(asked, caps, own, jar, allowed)

        response: Response = self.run(job, allow)
        return response


@pytest.fixture(params=[CurlDownloader, RequestsDownloader], ids=["curl", "requests"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


@pytest.fixture
def curl() -> Client:
    """For facts that hold for all downloaders alike."""
    return Client(CurlDownloader)


def tls_context(*protocols: str) -> ssl.SSLContext:
    """Of a server with CERTIFICATE. ``protocols``: those that it offers (ALPN)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.set_alpn_protocols(protocols)
    return context


@contextmanager
def listening(
    serve: Callable[[Any], object], context: ssl.SSLContext | None = None
) -> Iterator[int]:
    """A server that gives each connection to ``serve``, in a thread; the port. ``context``: it
    speaks TLS."""

    def talk(connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection:  # the latter: no handshake
            connection.settimeout(10)
            if context is None:
                serve(connection)
                return
            with context.wrap_socket(connection, server_side=True) as secure:
                serve(secure)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=[listener.accept()[0]], daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)
