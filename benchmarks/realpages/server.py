"""Server: pages over TLS 1.3, compressed once, on as many addresses of loopback as there are hosts.

``python -m benchmarks.realpages.server PORT CERTIFICATE DIRECTORY``: a request for /p/N gets the
file N of the directory, which is compressed with gzip; /robots.txt allows all."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

import uvloop

ROBOTS = b"User-agent: *\nAllow: /\n"


class Connection(asyncio.Protocol):
    directory: Path

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._waiting = transport, b""

    def data_received(self, data: bytes) -> None:
        *requests, self._waiting = (self._waiting + data).split(b"\r\n\r\n")
        for request in requests:
            path = request.split(b" ", 2)[1].decode()
            file = self.directory / path.rpartition("/")[2]
            if path == "/robots.txt":
                self._answer(b"200 OK", b"Content-Type: text/plain", ROBOTS)
            elif path.startswith("/p/") and file.is_file():
                kind = b"Content-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip"
                self._answer(b"200 OK", kind, file.read_bytes())
            else:
                self._answer(b"404 Not Found", b"Content-Type: text/plain", b"")

    def _answer(self, status: bytes, headers: bytes, body: bytes) -> None:
        self._transport.write(  # type: ignore[attr-defined]
            b"HTTP/1.1 %s\r\n%s\r\nContent-Length: %d\r\n\r\n" % (status, headers, len(body)) + body
        )


async def serve(port: int, certificate: str, directory: Path) -> None:
    Connection.directory = directory
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "0.0.0.0", port, ssl=context, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
