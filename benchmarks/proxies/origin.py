"""Origin: one server that is all hosts, and knows each proxy by its address."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

BODY = b"<html><title>page</title></html>"
ECHO = "echo"  # the host that checks of proxies ask for


@dataclass
class Origin:
    """``banned``: pairs of host and source address that get a 403."""

    port: int = 0
    arrivals: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    banned: set[tuple[str, str]] = field(default_factory=set)

    async def start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = writer.get_extra_info("peername")[0]
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                now = time.monotonic()
                fields = head.decode("latin-1").lower().split("\r\nhost:", 1)
                host = fields[1].strip().partition(".")[0]
                status = b"200 OK"
                if host != ECHO:
                    self.arrivals[host, source].append(now)
                    if (host, source) in self.banned:
                        self.refused[host, source].append(now)
                        status = b"403 Banned"
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                    % (status, len(BODY), BODY)
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
