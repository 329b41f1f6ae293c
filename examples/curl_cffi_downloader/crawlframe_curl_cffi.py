"""CffiDownloader: a downloader on curl_cffi, with the TLS handshake of a browser."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from curl_cffi import AsyncCurl, Curl, CurlError, CurlInfo, CurlMOpt, CurlOpt

from crawlframe.errors import (
    BadResponse,
    ConnectError,
    ConnectionLost,
    FetchError,
    FetchTimeout,
    ProxyAuth,
    ProxyFailed,
    ProxyUnreaching,
    TlsError,
)
from crawlframe.plug_in import Reply, Transfer

BROWSER = os.environ.get("CRAWLFRAME_CURL_CFFI", "chrome")
WAITING = 1 << 20  # bytes that may wait to be taken, above which the transfer is paused
PAUSE, CONTINUE = 0x10000001, 0  # CURL_WRITEFUNC_PAUSE, CURLPAUSE_CONT
STALLED = 10  # bytes a second that do not count as progress
HTTP_OR_HTTPS = 3
PROXY_AUTH = 407

# Codes of libcurl.
ERRORS: dict[int, type[FetchError]] = {
    1: BadResponse, 7: ConnectError, 8: BadResponse, 18: ConnectionLost, 28: FetchTimeout,
    35: TlsError, 52: ConnectionLost, 55: ConnectionLost, 56: ConnectionLost, 58: TlsError,
    60: TlsError, 77: TlsError, 80: TlsError, 92: ConnectionLost,
}  # fmt: skip
PROXY_ERRORS = (5, 7, 97)  # of it: not resolved, not connected, no handshake


class CffiDownloader:
    """Belongs to the event loop of its first fetch."""

    proxy_schemes = ("http", "https", "socks5", "socks5h")

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._multi: AsyncCurl | None = None

    async def fetch(self, transfer: Transfer) -> Reply:
        addresses = await transfer.addresses()
        gates = await transfer.proxy_addresses()
        if self._multi is None:
            self._multi = AsyncCurl()
            self._multi.setopt(CurlMOpt.MAXCONNECTS, self._concurrency)
        exchange = Exchange(transfer, addresses, gates, self._multi)
        try:
            return await exchange.run()
        finally:
            exchange.close()

    async def close(self) -> None:
        if self._multi is not None:
            await self._multi.close()
            self._multi = None


class Exchange:
    """One transfer."""

    def __init__(self, transfer: Transfer, addresses: Any, gates: Any, multi: AsyncCurl) -> None:
        self._transfer = transfer
        self._multi = multi
        self._lines: list[bytes] = []
        self._chunks: deque[bytes] = deque()
        self._waiting = 0  # bytes in them
        self._paused = False
        self._news = asyncio.Event()
        self._curl = Curl()
        self._prepare(addresses, gates)

    def _prepare(self, addresses: Any, gates: Any) -> None:
        transfer, setopt = self._transfer, self._curl.setopt
        self._curl.impersonate(BROWSER, default_headers=False)
        setopt(CurlOpt.URL, transfer.url.encode())
        # It resolves no names itself, so that it connects only to checked addresses.
        known = ((transfer.url, addresses), (transfer.proxy or "", gates))
        setopt(CurlOpt.RESOLVE, [_pin(url, found) for url, found in known if found])
        setopt(CurlOpt.PROTOCOLS, HTTP_OR_HTTPS)
        setopt(CurlOpt.FOLLOWLOCATION, 0)
        setopt(CurlOpt.PATH_AS_IS, 1)
        setopt(CurlOpt.PROXY, (transfer.proxy or "").encode())
        setopt(CurlOpt.NOPROXY, b"")
        setopt(CurlOpt.HTTP_CONTENT_DECODING, 0)
        setopt(CurlOpt.CONNECTTIMEOUT_MS, int(1000 * transfer.connect))
        setopt(CurlOpt.LOW_SPEED_LIMIT, STALLED)
        setopt(CurlOpt.LOW_SPEED_TIME, max(1, int(transfer.stall)))
        setopt(CurlOpt.HEADERFUNCTION, self._head)
        setopt(CurlOpt.WRITEFUNCTION, self._take)
        lines = [_line(name, value) for name, value in transfer.headers]
        if transfer.method == "HEAD":
            setopt(CurlOpt.NOBODY, 1)
        elif transfer.method != "GET" or transfer.body is not None:
            if transfer.body is not None or transfer.method in ("POST", "PUT", "PATCH"):
                body = transfer.body or b""
                setopt(CurlOpt.POSTFIELDSIZE, len(body))
                setopt(CurlOpt.POSTFIELDS, body)
                lines.append(b"Expect:")
                if not any(line.lower().startswith(b"content-type:") for line in lines):
                    lines.append(b"Content-Type:")
            setopt(CurlOpt.CUSTOMREQUEST, transfer.method.encode())
        setopt(CurlOpt.HTTPHEADER, lines)

    async def run(self) -> Reply:
        self._done = asyncio.ensure_future(self._multi.add_handle(self._curl))
        self._done.add_done_callback(lambda done: self._news.set())
        await self._until(lambda: bool(self._chunks))
        status, headers = self._received()
        address = self._curl.getinfo(CurlInfo.PRIMARY_IP)
        assert isinstance(address, bytes)
        return await self._transfer.receive(status, headers, self._body(), address.decode())

    def close(self) -> None:
        if not self._done.done():
            self._multi.remove_handle(self._curl)
            self._done.cancel()
        self._curl.close()

    async def _body(self) -> AsyncIterator[bytes]:
        while True:
            await self._until(lambda: bool(self._chunks))
            if not self._chunks:
                return
            chunk = self._chunks.popleft()
            self._waiting -= len(chunk)
            yield chunk
            if self._paused and self._waiting < WAITING // 2:
                self._paused = False
                self._curl.pause(CONTINUE)

    async def _until(self, ready: Any) -> None:
        """Waits until it is ready, or the transfer is over. Raises FetchError."""
        while not (ready() or self._done.done()):
            self._news.clear()
            await self._news.wait()
        if not ready() and (error := self._done.exception()):
            if not isinstance(error, CurlError):
                raise error
            code = int(error.code)
            kind = self._blamed(code) if self._transfer.proxy else None
            kind = kind or ERRORS.get(code, ConnectionLost)
            raise kind(f"{self._transfer.where}: {error}")

    def _blamed(self, code: int) -> type[FetchError] | None:
        """The error if it is the proxy that has failed."""
        tunnel = self._curl.getinfo(CurlInfo.HTTP_CONNECTCODE)
        if tunnel == PROXY_AUTH:
            return ProxyAuth
        if tunnel and not 200 <= int(tunnel) < 300:  # type: ignore[arg-type]
            return ProxyUnreaching
        if code in PROXY_ERRORS or not self._curl.getinfo(CurlInfo.CONNECT_TIME):
            return ProxyFailed
        begun = self._curl.getinfo(CurlInfo.PRETRANSFER_TIME)
        return None if begun or tunnel or code == 28 else ProxyFailed

    def _head(self, line: bytes) -> int:
        self._lines.append(line)
        return len(line)

    def _take(self, chunk: bytes) -> int:
        if self._waiting > WAITING:
            self._paused = True
            return PAUSE
        self._chunks.append(chunk)
        self._waiting += len(chunk)
        self._news.set()
        return len(chunk)

    def _received(self) -> tuple[int, list[tuple[str, str]]]:
        status, headers, in_head = 0, list[tuple[str, str]](), False
        for line in self._lines:  # 1xx responses may come before the head, trailers after it
            text = line.decode("latin-1").rstrip("\r\n")
            if text.startswith("HTTP/") and not in_head:
                status, headers, in_head = int(text.split()[1]), [], True
            elif not text:
                in_head = False
            elif in_head:
                name, _, value = text.partition(":")
                headers.append((name, value.strip()))
        return status, headers


def _pin(url: str, addresses: Any) -> str:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.hostname}:{port}:{','.join(addresses)}"


def _line(name: str, value: str) -> bytes:
    try:
        sent = value.strip().encode("latin-1")
    except UnicodeEncodeError:
        sent = value.strip().encode()
    # In libcurl a semicolon sets an empty value; a colon would remove the header.
    return name.encode() + (b": " + sent if sent else b";")
