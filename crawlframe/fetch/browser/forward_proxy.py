"""ForwardProxy: the only way out of a browser context. It resolves each name as the other
downloaders do, and connects to allowed addresses only.

Chromium is started so that no connection bypasses it: no loopback exception, no UDP, no resolver of
its own. So the cause of a request does not matter: a redirect, a script, a WebSocket, or a name
whose address has changed since."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any
from urllib.parse import urlsplit

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import is_address
from crawlframe.errors import (
    ConnectError,
    DnsError,
    FetchError,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
)
from crawlframe.fetch.browser.trackers import OF_THE_BROWSER, is_tracker
from crawlframe.fetch.browser.upstream import Streams, authorization, reach, tunnel
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names, Unresolved
from crawlframe.proxies.proxy import ChosenProxy

MAX_HEAD = 1 << 18  # bytes of the head of a request
CONNECT = 15.0  # seconds to open a connection
CHUNK = 1 << 16  # bytes
MAX_PROBLEMS = 1000  # places whose last problem is remembered

# Marks an answer of ours; a page that sends it only makes its own request fail.
REFUSAL = "x-crawlframe-refusal"

_WANTS_LOGIN = b"HTTP/1.1 407"  # the minor version may be another

_HOP_BY_HOP = ("proxy-connection:", "proxy-authorization:", "keep-alive:")


class ForwardProxy:
    """Listens on a port of its own while it is open. ``upstream``: the proxy behind it."""

    def __init__(
        self,
        names: Names,
        guard: AddressGuard,
        upstream: ChosenProxy | None = None,
        *,
        trackers: bool = False,
    ) -> None:
        """``trackers``: requests to trackers are refused."""
        self.addresses: dict[str, str] = {}  # host -> where it was reached last
        self.received = 0  # bytes, from all servers
        self._names = names
        self._guard = guard
        self._upstream = upstream
        self._trackers = trackers
        self._problems: BoundedDict[tuple[str, int], tuple[float, FetchError]] = BoundedDict(
            MAX_PROBLEMS
        )
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in [*self._open]:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def problem(self, host: str, port: int, since: float) -> FetchError | None:
        """Why the last connection to a place failed, if that was after ``since``
        (time.monotonic())."""
        at, error = self._problems.get((host, port), (0.0, None))
        return error if at >= since else None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:  # only ``close`` does it; the server logs it otherwise
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, rest = _split(head)
        method, target, _ = first.split(" ", 2)
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            try:
                far = await self._reach(host.lower(), int(port))
            except FetchError as error:
                writer.write(_refusal(error))
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._relay((reader, writer), far)
        else:
            await self._serve_plain(reader, writer, method, target, rest)

    async def _serve_plain(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        method: str,
        target: str,
        rest: list[str],
    ) -> None:
        """Requests without TLS, all for one server: a connection that is used for another server is
        closed, and Chromium opens a new one."""
        place = host, port = _place_of(target)
        whole = self._upstream is not None and self._upstream.scheme in ("http", "https")
        try:
            far = await self._reach(host, port, whole=whole)
        except FetchError as error:
            writer.write(_refusal(error))
            return
        copy = self._copy_from_proxy(far[0], writer, place) if whole else self._copy(far[0], writer)
        back = asyncio.ensure_future(copy)
        running: list[asyncio.Future[Any]] = [back]
        try:
            while _place_of(target) == place:
                if await self._pass_on((reader, far[1]), method, target, rest, whole=whole):
                    await self._copy(reader, far[1], count=False)
                    await back
                    return
                begun = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
                running = [back, begun]
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                if not begun.done():  # the server has closed
                    return
                first, rest = _split(begun.result())
                method, target, _ = first.split(" ", 2)
        finally:
            for one in running:
                one.cancel()
            far[1].close()
            await asyncio.gather(*running, return_exceptions=True)

    async def _pass_on(
        self,
        way: Streams,
        method: str,
        target: str,
        rest: list[str],
        *,
        whole: bool,
    ) -> bool:
        """Sends one request on. Returns whether all that follows belongs to it."""
        parts = urlsplit(target)
        path = target if whole else (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [line for line in rest if not line.lower().startswith(_HOP_BY_HOP)]
        if whole and self._upstream is not None and (secret := authorization(self._upstream)):
            lines.append(f"Proxy-Authorization: {secret}")
        way[1].write("\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1"))
        length, endless = 0, False
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
            endless |= name.lower() in ("transfer-encoding", "upgrade")
        while length > 0 and not endless:
            part = await way[0].read(min(CHUNK, length))
            if not part:
                raise ConnectionError("the request ends too early")
            way[1].write(part)
            length -= len(part)
            await way[1].drain()
        return endless

    async def _reach(self, host: str, port: int, *, whole: bool = False) -> Streams:
        """A connection to a server, or to the proxy that takes ``whole`` URLs. Raises
        FetchError."""
        try:
            async with asyncio.timeout(CONNECT):
                return await self._connect(host, port, whole=whole)
        except TimeoutError:
            error: FetchError = ConnectError(f"{host}:{port}: no connection within {CONNECT:g} s")
        except FetchError as failed:
            error = failed
        self._note((host, port), error)
        raise error

    def _note(self, place: tuple[str, int], error: FetchError) -> None:
        self._problems[place] = time.monotonic(), error

    async def _connect(self, host: str, port: int, *, whole: bool) -> Streams:
        if host in OF_THE_BROWSER:
            raise ConnectError(f"{host} is asked by the browser, not by a page")
        if self._trackers and is_tracker(host):
            raise ConnectError(f"{host} is a tracker, which browser.block refuses")
        allowed = await self._addresses(host)
        if self._upstream is not None:
            return await self._through(self._upstream, allowed, host, port, whole=whole)
        last: OSError | None = None
        for address in allowed:
            try:
                streams = await asyncio.open_connection(address, port)
            except OSError as error:
                last = error
                continue
            self.addresses[host] = address
            return streams
        raise ConnectError(f"{host}:{port}: {last}")

    async def _through(
        self, upstream: ChosenProxy, allowed: list[str], host: str, port: int, *, whole: bool
    ) -> Streams:
        """Raises ProxyFailed, and PrivateAddress for a proxy that must not have its address."""
        try:
            address, *_ = (await self._names.resolve(upstream.host, CONNECT)).addresses
        except Unresolved as error:
            raise ProxyFailed(f"the proxy {upstream.url}: {error}") from None
        if not upstream.trusted and not self._guard.allows(address):
            raise PrivateAddress(f"the proxy {upstream.url}: {address} is not a public address")
        if whole:
            return await reach(upstream, address)
        if upstream.scheme == "socks5":
            if not allowed:
                raise DnsError(f"{host} cannot be resolved here; socks5h lets the proxy do it")
            host = allowed[0]
        return await tunnel(upstream, address, host, port)

    async def _addresses(self, host: str) -> list[str]:
        """The allowed addresses of a host. Raises PrivateAddress and DnsError; not the latter if
        an upstream proxy resolves names."""
        try:
            found = (await self._names.resolve(host, CONNECT)).addresses
        except Unresolved as error:
            if self._upstream is not None and not is_address(host):
                return []
            raise DnsError(str(error)) from None
        allowed = self._guard.allowed(found)
        if self._upstream is not None and len(allowed) < len(found):
            raise PrivateAddress.of(next(one for one in found if one not in allowed))
        return allowed

    async def _relay(self, near: Streams, far: Streams) -> None:
        """Passes bytes in both directions until one side ends both, or fails."""
        ways = [
            asyncio.ensure_future(self._copy(near[0], far[1], count=False)),
            asyncio.ensure_future(self._copy(far[0], near[1])),
        ]
        try:
            await asyncio.gather(*ways)
        finally:
            for way in ways:
                way.cancel()
            far[1].close()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _copy_from_proxy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: tuple[str, int]
    ) -> None:
        """Copies answers, unless the first one is that the proxy wants other credentials."""
        head = b""
        while len(head) < len(_WANTS_LOGIN) and (part := await reader.read(CHUNK)):
            head += part
        if head[:7] + head[8:12] == _WANTS_LOGIN[:7] + _WANTS_LOGIN[8:]:
            assert self._upstream is not None
            error = ProxyAuth(f"the proxy {self._upstream.url} asks for other credentials (407)")
            self._note(place, error)
            writer.write(_refusal(error))
            writer.write_eof()
            return
        self.received += len(head)
        writer.write(head)
        await self._copy(reader, writer)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool = True
    ) -> None:
        while part := await reader.read(CHUNK):
            if count:
                self.received += len(part)
            writer.write(part)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


def _split(head: bytes) -> tuple[str, list[str]]:
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    return first, rest


def _place_of(target: str) -> tuple[str, int]:
    """Host and port of an absolute http URL; IPv6 addresses in brackets. Raises ValueError."""
    parts = urlsplit(target)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{target[:200]!r} is no http URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return host.lower(), parts.port or 80


def _refusal(error: FetchError) -> bytes:
    return (
        f"HTTP/1.1 502 {error.reason}\r\n{REFUSAL}: {error.reason}\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n"
    ).encode("latin-1")
