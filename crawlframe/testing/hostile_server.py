"""A web server on loopback that answers well or badly, by path, for tests of downloaders."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gzip
import ipaddress
import json
import socket
import ssl
import struct
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

ENDS = (ConnectionError, asyncio.IncompleteReadError, ValueError, asyncio.CancelledError)
CHUNK = bytes(1 << 16)
LARGE_BODY = 8 << 20  # bytes of /large
BOMB = 32 << 20  # bytes of /bomb after decompression
ENDLESS = 1 << 30  # bytes after which /endless ends
TEXT = b"<p>hello " + b"world " * 2000
FIRST = b"HTTP/1.1 200 OK\r\n"


class HostileServer:
    """Use it as a context manager. ``seen`` counts requests by path, ``sent`` bytes by path;
    ``connections`` counts connections. ``url`` and ``tls_url`` have no trailing slash."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.connections = 0
        self.url = self.tls_url = ""
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: set[asyncio.Task[None]] = set()  # the loop keeps weak ones
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> HostileServer:
        self._thread.start()
        plain, tls = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        self.url, self.tls_url = f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{tls}"
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> tuple[int, int]:
        self._servers = [
            await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=context)
            for context in (None, _context())
        ]
        plain, tls = (server.sockets[0].getsockname()[1] for server in self._servers)
        return plain, tls

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        await asyncio.sleep(0.05)  # accepted connections get their transports in the loop
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            # CPython raises it for a transport that was closed before its last bytes were sent.
            with contextlib.suppress(AttributeError):
                writer.transport.abort()
        await asyncio.sleep(0.01)  # their connections are closed in the next round of the loop

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not in the task: one that is cancelled before its first step would leave its socket open.
        self._writers.append(writer)
        self._serving.add(task := asyncio.create_task(self._serve(reader, writer)))
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(*ENDS):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = [
            (name, value.strip()) for name, _, value in (n.partition(":") for n in lines[1:])
        ]
        length = int(next((v for name, v in headers if name.lower() == "content-length"), 0))
        body = await reader.readexactly(length)
        path = target.partition("?")[0]
        self.seen[path] += 1

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()
            self.sent[path] += len(data)

        if path == "/echo":
            asked = {"method": method, "target": target, "headers": headers, "body": body.decode()}
            await send(_whole(json.dumps(asked).encode()))
            return True
        if path == "/reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if (fixed := ANSWERS.get(path)) is not None:
            await send(fixed[: fixed.find(b"\r\n\r\n") + 4] if method == "HEAD" else fixed)
            return path not in BROKEN
        if slow := SLOW.get(path):
            await slow(send)
            return False
        if path == "/elsewhere":  # a redirect to another address of this machine
            port = writer.get_extra_info("sockname")[1]
            await send(_redirect(f"http://127.0.0.2:{port}/"))
            return True
        await send(_whole(b"no such page", "404 Not Found"))
        return True


Send = Callable[[bytes], Awaitable[None]]


async def _endless(send: Send) -> None:
    await send(FIRST + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(ENDLESS // len(CHUNK)):
        await send(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK))


async def _announced(send: Send) -> None:
    await send(FIRST + b"Content-Length: %d\r\n\r\n" % ENDLESS)
    for _ in range(ENDLESS // len(CHUNK)):
        await send(CHUNK)


async def _drip(send: Send) -> None:
    await send(FIRST + b"Content-Length: 1000\r\n\r\n")
    for _ in range(1000):
        await send(b"x")
        await asyncio.sleep(0.05)


async def _silence(send: Send) -> None:
    await asyncio.sleep(3600)


async def _large(send: Send) -> None:
    await send(FIRST + b'ETag: "large"\r\nContent-Length: %d\r\n\r\n' % LARGE_BODY)
    for _ in range(LARGE_BODY // len(CHUNK)):
        await send(CHUNK)


def _whole(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
    )


def _redirect(target: str) -> bytes:
    return _whole(b"moved", "302 Found", f"Location: {target}\r\n")


SLOW: dict[str, Callable[[Send], Awaitable[None]]] = {
    "/announced": _announced,
    "/drip": _drip,
    "/endless": _endless,
    "/large": _large,
    "/silence": _silence,
}
ANSWERS = {
    "/": _whole(b"hello", "201 Made", "X-Two: a\r\nx-two: b\r\nX-Odd: caf\xe9\r\n"),
    "/bomb": _whole(gzip.compress(bytes(BOMB)), more="Content-Encoding: gzip\r\n"),
    "/chunked": FIRST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    "/cookie": _whole(b"set", more="Set-Cookie: sid=secret; Path=/\r\n"),
    "/cut": FIRST + b"Content-Length: 1000\r\n\r\nshort",
    "/cut-chunk": FIRST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "/empty": b"HTTP/1.1 204 No Content\r\n\r\n",
    "/garbage": b"this is no HTTP\r\n\r\n",
    "/gzip": _whole(gzip.compress(TEXT), more="Content-Encoding: gzip\r\n"),
    "/moved": _redirect("/"),
    "/nothing": b"",
    "/rate-limited": _whole(b"later", "429 Too Many Requests", "Retry-After: 7\r\n"),
}
BROKEN = frozenset({"/cut", "/cut-chunk", "/garbage", "/nothing"})


def _context() -> ssl.SSLContext:
    """A TLS context with a certificate that no authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.pem"
        path.write_bytes(_certificate())
        context.load_cert_chain(path)
    return context


def _certificate() -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, form, plain) + certificate.public_bytes(pem)
