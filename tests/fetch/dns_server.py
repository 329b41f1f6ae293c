"""A name server on loopback, over UDP and TCP, whose answers each test writes."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any

SERVFAIL, NXDOMAIN, REFUSED = 2, 3, 5
_A, _AAAA = 1, 28


@dataclass
class Zone:
    """The reply for one name: ``addresses`` of both families, or a ``code``. ``truncated``: over
    UDP, so that the client must ask again over TCP; ``silent``: none at all; ``alias``: the name is
    a CNAME of this one, whose own TTL is ``alias_ttl``."""

    addresses: tuple[str, ...] = ()
    ttl: int = 300
    code: int = 0
    truncated: bool = False
    silent: bool = False
    alias: str = ""
    alias_ttl: int = 300
    negative_ttl: int = 1  # by an SOA record in a reply without addresses


@dataclass
class DnsServer:
    """``asked`` counts questions for IPv4 addresses by name and transport."""

    address: str = ""
    zones: dict[str, Zone] = field(default_factory=dict)
    rest: Callable[[str], Zone] = lambda name: Zone(code=NXDOMAIN)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def reply(self, query: bytes, over: str) -> bytes | None:
        name, end = _name(query)
        kind = int.from_bytes(query[end : end + 2], "big")
        if kind == _A:
            self.asked[name, over] += 1
        zone = self.zones.get(name) or self.rest(name)
        if zone.silent:
            return None
        records: list[bytes] = []
        truncated = zone.truncated and over == "udp"
        if not truncated:
            owner = b"\xc0\x0c"  # the name in the question
            if zone.alias:
                records.append(_record(owner, 5, zone.alias_ttl, _labels(zone.alias)))
                owner = _labels(zone.alias)
            version = 4 if kind == _A else 6 if kind == _AAAA else 0
            for address in map(ipaddress.ip_address, zone.addresses):
                if address.version == version:
                    records.append(_record(owner, kind, zone.ttl, address.packed))
        authority: list[bytes] = []
        if not records and not truncated:
            soa = _labels("ns.test") * 2 + struct.pack("!5I", 1, 60, 60, 60, zone.negative_ttl)
            authority.append(_record(_labels("test"), 6, zone.negative_ttl, soa))
        flags = 0x8180 | zone.code | (0x0200 if truncated else 0)
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(records), len(authority), 0)
        return head + query[12 : end + 4] + b"".join(records + authority)

    async def serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(2), "big")
                if reply := self.reply(await reader.readexactly(size), "tcp"):
                    writer.write(len(reply).to_bytes(2, "big") + reply)


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        if reply := self._server.reply(data, "udp"):
            self._transport.sendto(reply, addr)


@asynccontextmanager
async def dns_server() -> AsyncIterator[DnsServer]:
    """A DNS server in the running loop."""
    server, loop = DnsServer(), asyncio.get_running_loop()
    tcp = await asyncio.start_server(server.serve_tcp, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    udp, _ = await loop.create_datagram_endpoint(
        lambda: _Udp(server), local_addr=("127.0.0.1", port)
    )
    server.address = f"127.0.0.1:{port}"
    try:
        yield server
    finally:
        udp.close()
        tcp.close()


def _name(query: bytes) -> tuple[str, int]:
    """The name asked for, in lower case, and where it ends."""
    labels, at = [], 12
    while size := query[at]:
        labels.append(query[at + 1 : at + 1 + size].decode().lower())
        at += 1 + size
    return ".".join(labels), at + 1


def _labels(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _record(owner: bytes, kind: int, ttl: int, data: bytes) -> bytes:
    return owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data
