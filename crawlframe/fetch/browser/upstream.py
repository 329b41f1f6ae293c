"""Connections through the proxy of a request: HTTP, HTTPS or SOCKS5."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import ssl
import struct

from crawlframe.errors import ProxyAuth, ProxyFailed, ProxyUnreaching
from crawlframe.identity.tls import usual_ca
from crawlframe.proxies.proxy import ChosenProxy

MAX_HEAD = 1 << 16  # bytes of a proxy's answer to CONNECT
_SOCKS, _CONNECT, _DOMAIN = 5, 1, 3
_NO_PASSWORD, _PASSWORD = 0, 2  # of RFC 1928 and 1929
_REPLIES = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
}

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def reach(upstream: ChosenProxy, address: str) -> Streams:
    """A connection to the proxy itself, at this address of its. Raises ProxyFailed."""
    context = None
    if upstream.scheme == "https":
        context = ssl.create_default_context(cafile=usual_ca())
    try:
        return await asyncio.open_connection(
            address,
            upstream.port,
            ssl=context,
            server_hostname=upstream.host if context else None,
            limit=MAX_HEAD,
        )
    except (OSError, ssl.SSLError) as error:
        raise ProxyFailed(f"the proxy {upstream.url}: {error}") from None


async def tunnel(upstream: ChosenProxy, address: str, host: str, port: int) -> Streams:
    """A connection to ``host`` through the proxy. Raises ProxyFailed."""
    reader, writer = await reach(upstream, address)
    try:
        if upstream.scheme.startswith("socks5"):
            await _by_socks(upstream, reader, writer, host, port)
        else:
            await _by_connect(upstream, reader, writer, host, port)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise ProxyFailed(f"the proxy {upstream.url}: {error}") from None
    except BaseException:
        writer.close()
        raise
    return reader, writer


def authorization(upstream: ChosenProxy) -> str:
    """The value of Proxy-Authorization; "" without a name."""
    if not upstream.username:
        return ""
    pair = f"{upstream.username}:{upstream.password.reveal()}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


async def _by_connect(
    upstream: ChosenProxy,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
) -> None:
    place = f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if secret := authorization(upstream):
        lines.append(f"Proxy-Authorization: {secret}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = head.split("\r\n", 1)[0].split(" ", 2)
    if len(status) < 2 or not status[1].startswith("2"):
        answer = " ".join(status[1:])[:200]
        kind = ProxyAuth if answer.startswith("407") else ProxyUnreaching
        raise kind(f"the proxy {upstream.url} refuses {place}: {answer or 'no HTTP'}")


async def _by_socks(
    upstream: ChosenProxy,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
) -> None:
    method = _PASSWORD if upstream.username else _NO_PASSWORD
    writer.write(bytes([_SOCKS, 1, method]))
    version, chosen = await reader.readexactly(2)
    if version != _SOCKS or chosen != method:
        raise ProxyAuth(f"the proxy {upstream.url} does not accept this way to log in")
    if method == _PASSWORD:
        name, word = upstream.username.encode()[:255], upstream.password.reveal().encode()[:255]
        writer.write(b"\1" + bytes([len(name)]) + name + bytes([len(word)]) + word)
        _, status = await reader.readexactly(2)
        if status:
            raise ProxyAuth(f"the proxy {upstream.url} refuses its name and password")
    writer.write(bytes([_SOCKS, _CONNECT, 0]) + _socks_address(host) + struct.pack("!H", port))
    _, reply, _, kind = await reader.readexactly(4)
    if reply:
        why = _REPLIES.get(reply, f"reply {reply}")
        raise ProxyUnreaching(f"the proxy {upstream.url} cannot reach {host}:{port}: {why}")
    length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
    await reader.readexactly(length + 2)


def _socks_address(host: str) -> bytes:
    try:
        packed = ipaddress.ip_address(host.strip("[]")).packed
        return bytes([1 if len(packed) == 4 else 4]) + packed
    except ValueError:
        name = host.encode("idna" if not host.isascii() else "ascii")[:255]
        return bytes([_DOMAIN, len(name)]) + name
