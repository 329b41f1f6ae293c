"""The proxy that a browser's connections go through, asked as Chromium asks it."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crawlframe.base.secret import Secret
from crawlframe.errors import ConnectError, DnsError, PrivateAddress
from crawlframe.fetch.browser.forward_proxy import REFUSAL, ForwardProxy
from crawlframe.fetch.browser.trackers import is_tracker
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names
from crawlframe.proxies.proxy import FIXED, ChosenProxy
from tests.proxy_server import ProxyServer, running

from .conftest import Exchange, Site

HERE = (ipaddress.ip_network("127.0.0.1/32"),)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def names(host: str) -> tuple[list[str], float] | None:
    if host == "private.test":
        return ["127.0.0.2"], 60
    if host == "gone.test":
        raise OSError("no such host")
    return ["127.0.0.1"], 60


def run(job: Callable[[ForwardProxy, Streams], Awaitable[Any]], **options: Any) -> Any:
    """Calls ``job`` with a proxy and a connection to it."""

    async def main() -> Any:
        resolver = Names(names)
        proxy = ForwardProxy(resolver, AddressGuard(HERE), **options)
        await proxy.start()
        streams = await asyncio.open_connection("127.0.0.1", proxy.port)
        try:
            async with asyncio.timeout(30):
                return await job(proxy, streams)
        finally:
            streams[1].close()
            await proxy.close()
            await resolver.close()

    return asyncio.run(main())


async def ask(streams: Streams, text: str, body: bytes = b"") -> tuple[str, bytes]:
    """Head and body of the answer."""
    streams[1].write(text.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    head = (await streams[0].readuntil(b"\r\n\r\n")).decode()
    lines = [line.lower() for line in head.split("\r\n")]
    length = next((int(one[16:]) for one in lines if one.startswith("content-length")), 0)
    return head, await streams[0].readexactly(length)


def get(site: Site, path: str, host: str = "127.0.0.1") -> str:
    place = site.url.removeprefix("http://").replace("127.0.0.1", host)
    return f"GET http://{place}{path} HTTP/1.1\nHost: {place}\nProxy-Connection: keep-alive"


def test_one_connection_serves_many_requests(site: Site) -> None:
    site.answer("/a", b"first")
    site.answer("/b", b"second")

    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        assert (await ask(streams, get(site, "/a")))[1] == b"first"
        post = get(site, "/b?x=1").replace("GET", "POST") + "\nContent-Length: 4"
        assert (await ask(streams, post, b"body"))[1] == b"second"
        assert (await ask(streams, get(site, "/a")))[1] == b"first"
        assert proxy.received > 0
        assert proxy.addresses == {"127.0.0.1": "127.0.0.1"}

    run(job)
    assert [(one.target, one.body, one.connection) for one in site.seen] == [
        ("/a", b"", 1), ("/b?x=1", b"body", 1), ("/a", b"", 1)
    ]  # fmt: skip
    assert site.seen[0].header("Proxy-Connection") is None


def test_a_request_for_another_server_ends_the_connection(site: Site) -> None:
    site.answer("/a", b"first")

    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        await ask(streams, get(site, "/a"))
        streams[1].write(get(site, "/b", "other.test").replace("\n", "\r\n").encode() + b"\r\n\r\n")
        assert await streams[0].read() == b""

    run(job)
    assert len(site.seen) == 1


def test_what_follows_an_upgrade_is_passed_on(site: Site) -> None:
    @site.on("/ws")
    async def upgrade(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nhello")

    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        await ask(streams, get(site, "/ws") + "\nUpgrade: x")
        assert await streams[0].read() == b"hello"

    run(job)


def connect(site: Site, host: str = "127.0.0.1") -> str:
    return f"CONNECT {host}:{port_of(site)} HTTP/1.1\nHost: x"


def port_of(site: Site) -> int:
    return int(site.url.rpartition(":")[2])


def test_a_tunnel(site: Site) -> None:
    site.answer("/a", b"first")

    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        head, _ = await ask(streams, connect(site))
        assert " 200 " in head
        assert (await ask(streams, "GET /a HTTP/1.1\nHost: x"))[1] == b"first"

    run(job)


@pytest.mark.parametrize("tunnel", [True, False])
@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("127.0.0.2", PrivateAddress),
        ("[::1]", PrivateAddress),
        ("private.test", PrivateAddress),
        ("gone.test", DnsError),
        ("doubleclick.net", ConnectError),
        ("content-autofill.googleapis.com", ConnectError),
    ],
)
def test_forbidden_hosts_get_502(site: Site, host: str, kind: type, tunnel: bool) -> None:
    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        head, _ = await ask(streams, connect(site, host) if tunnel else get(site, "/", host))
        assert head.startswith("HTTP/1.1 502 ")
        assert REFUSAL in head
        assert type(proxy.problem(host, port_of(site), 0.0)) is kind
        assert proxy.problem(host, port_of(site), 1e12) is None

    run(job, trackers=True)
    assert not site.seen


@pytest.mark.parametrize("text", ["GET / HTTP/1.1", "GET ftp://x/ HTTP/1.1", "nonsense", "A B C D"])
def test_what_is_no_request_is_not_answered(text: str) -> None:
    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        streams[1].write(text.encode() + b"\r\n\r\n")
        assert await streams[0].read() == b""

    run(job)


def test_hosts_below_a_tracker_are_trackers() -> None:
    assert is_tracker("stats.g.doubleclick.net")
    assert not is_tracker("notdoubleclick.net")


# -- through the proxy of a request ------------------------------------------------------------


def through(
    job: Callable[[ForwardProxy, Streams], Awaitable[Any]], scheme: str, password: str
) -> list[str]:
    """Runs a job with a proxy behind. Returns the places it was asked for."""
    server = ProxyServer(scheme.removesuffix("h"), "me:secret")
    with running(server):
        address = (scheme, "127.0.0.1", server.port)
        run(job, upstream=ChosenProxy(FIXED, *address, "me", Secret(password)))
    return [place for place in server.uses if place != "407"]


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_tunnel_through_another_proxy(site: Site, scheme: str) -> None:
    site.answer("/a", b"first")

    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        assert " 200 " in (await ask(streams, connect(site, "far.test")))[0]
        assert (await ask(streams, "GET /a HTTP/1.1\nHost: x"))[1] == b"first"

    assert through(job, scheme, "secret") == [f"far.test:{port_of(site)}"]


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
@pytest.mark.parametrize("host", ["127.0.0.2", "[::1]", "private.test"])
def test_private_addresses_are_refused_there_too(site: Site, scheme: str, host: str) -> None:
    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        await ask(streams, connect(site, host))
        assert type(proxy.problem(host, port_of(site), 0.0)) is PrivateAddress

    assert through(job, scheme, "secret") == []


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_proxy_that_refuses_is_named_without_its_password(site: Site, scheme: str) -> None:
    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        await ask(streams, connect(site))
        problem = str(proxy.problem("127.0.0.1", port_of(site), 0.0))
        assert "proxy" in problem
        assert "refuses" in problem
        assert "wrongs" not in problem

    assert through(job, scheme, "wrongs") == []  # as long as the right one


def test_plain_requests_are_sent_to_it_whole(site: Site) -> None:
    """The site is the proxy here."""
    upstream = ChosenProxy(FIXED, "http", "127.0.0.1", port_of(site), "me", Secret("secret"))

    async def job(proxy: ForwardProxy, streams: Streams) -> None:
        head, _ = await ask(streams, "GET http://far.test/a?b=1 HTTP/1.1\nHost: far.test")
        assert " 404 " in head  # it has no such page

    run(job, upstream=upstream)
    (seen,) = site.seen
    assert (seen.target, seen.header("Host")) == ("http://far.test/a?b=1", "far.test")
    secret = base64.b64encode(b"me:secret").decode()
    assert seen.header("Proxy-Authorization") == f"Basic {secret}"
