"""Features of the curl downloader alone."""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pycurl
import pytest

from crawlframe.errors import BodyTooLarge, ConnectionLost, FetchTimeout
from crawlframe.fetch.curl import downloader as curl
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.request.request import Request

from .conftest import CERTIFICATE, Client, Exchange, Site, listening, tls_context


@pytest.fixture
def client() -> Client:
    return Client(CurlDownloader)


def test_headers_of_one_fetch_do_not_stick_to_the_next(client: Client, site: Site) -> None:
    site.answer("/")

    async def job(downloader: Any) -> None:
        for headers in ({"X-A": "1"}, {}, {"X-B": "2"}, {"X-B": "2"}):
            await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), headers)

    client.run(job)
    seen = [(got.header("X-A"), got.header("X-B")) for got in site.seen]
    assert seen == [("1", None), (None, None), (None, "2"), (None, "2")]


def test_limits_of_one_fetch_do_not_stick_to_the_next(client: Client, site: Site) -> None:
    @site.on("/slow")
    async def slow(exchange: Exchange) -> bool:
        await asyncio.sleep(0.3)
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
        return True

    async def job(downloader: Any) -> bytes:
        with pytest.raises(FetchTimeout):
            await downloader.fetch(Request(f"{site.url}/slow"), FetchLimits(timeout=0.1), {})
        response = await downloader.fetch(Request(f"{site.url}/slow"), FetchLimits(), {})
        body: bytes = response.body
        return body

    assert client.run(job) == b"late"


def test_open_connections_are_bounded(client: Client, site: Site) -> None:
    """Idle ones are closed in favour of those to other hosts."""
    site.answer("/", b"here")
    port = int(site.url.rpartition(":")[2])
    addresses = [f"127.0.0.{i}" for i in range(2, 30)]

    async def job(downloader: Any) -> None:
        server = await asyncio.start_server(site.serve, addresses, port)
        for address in addresses:
            url = f"http://{address}:{port}/"
            response = await downloader.fetch(Request(url), FetchLimits(), {})
            assert response.body == b"here"
        assert site.connections == len(addresses)
        while site.still_open > 16:  # the server needs a moment to see it
            await asyncio.sleep(0.01)
        server.close()

    client.run(job, concurrency=1)


def test_connections_leave_half_of_the_files_to_others() -> None:
    assert curl.pool_size(64, 20_000) == 1_024
    assert curl.pool_size(64, 1_024) == 512
    assert curl.pool_size(64, 64) == 64
    assert curl.pool_size(500, resource.RLIM_INFINITY) == 2_000


def test_hosts_in_turn_keep_their_connections(site: Site) -> None:
    """More hosts than transfers at once, as in a broad crawl."""
    site.answer("/", b"here")
    port = int(site.url.rpartition(":")[2])
    addresses = [f"127.0.0.{i}" for i in range(2, 17)]

    async def job(downloader: Any) -> None:
        server = await asyncio.start_server(site.serve, addresses, port)
        for address in addresses * 3:
            await downloader.fetch(Request(f"http://{address}:{port}/"), FetchLimits(), {})
        server.close()

    Client(CurlDownloader).run(job, concurrency=1)
    assert site.connections == len(addresses)


def test_broken_multi_handle_is_replaced(client: Client, site: Site) -> None:
    """libcurl gives up a multi handle for good when a socket callback fails."""
    site.answer("/", b"fine")

    async def job(downloader: Any) -> bytes:
        loop = asyncio.get_running_loop()
        multi = downloader._open()
        multi._ensure_loop()

        def fail(*args: Any) -> None:
            raise OSError("no more events")

        class Loop:
            add_reader = add_writer = staticmethod(fail)

            def __getattr__(self, name: str) -> Any:
                return getattr(loop, name)

        multi._ensure_loop = lambda: loop
        multi._loop = Loop()
        with pytest.raises(ConnectionLost):
            await downloader.fetch(Request(f"{site.url}/"), FetchLimits(timeout=5), {})
        response = await downloader.fetch(Request(f"{site.url}/"), FetchLimits(timeout=5), {})
        body: bytes = response.body
        return body

    assert client.run(job) == b"fine"


def test_transfer_that_libcurl_forgets_ends_too(
    client: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl, "STUCK_AFTER", 0.1)
    site.answer("/", b"fine")

    async def job(downloader: Any) -> bytes:
        multi = downloader._open()
        drive, multi._drive = multi._drive, lambda *args: None  # all events are lost
        with pytest.raises(FetchTimeout, match="stuck"):
            await downloader.fetch(Request(f"{site.url}/"), FetchLimits(timeout=0.2), {})
        multi._drive = drive
        response = await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})
        body: bytes = response.body
        return body

    assert client.run(job) == b"fine"


def test_closed_coroutine_gives_its_transfer_up(client: Client, site: Site) -> None:
    """As at the end of a loop: nothing is cancelled then."""
    site.answer("/", b"fine")

    async def job(downloader: Any) -> bytes:
        fetch = downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})
        fetch.send(None)
        assert len(downloader._multi.futures()) == 1
        fetch.close()
        assert downloader._multi.futures() == ()
        response = await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})
        body: bytes = response.body
        return body

    assert client.run(job) == b"fine"


def test_idle_handles_hold_nothing(client: Client, site: Site) -> None:
    site.answer("/", b"x" * 100_000)

    async def job(downloader: Any) -> None:
        for limit in (200_000, 10, 200_000):
            try:
                await downloader.fetch(Request(f"{site.url}/"), FetchLimits(max_body=limit), {})
            except BodyTooLarge:
                pass
            (handle,) = downloader._idle
            assert (handle._head, handle._body.getvalue()) == ([], b"")

    client.run(job)


def test_fetches_after_a_fork(client: Client, site: Site) -> None:
    """Objects of the parent stay the parent's; a new downloader in the child works."""
    site.answer("/", b"fine")
    assert client.fetch(f"{site.url}/").body == b"fine"
    child = os.fork()
    if child == 0:
        try:
            os._exit(client.fetch(f"{site.url}/").body != b"fine")
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


REFUSED = b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x07"  # RST_STREAM of stream 1
SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def frames(connection: ssl.SSLSocket) -> Iterator[int]:
    """The types of the HTTP/2 frames that a client sends."""
    file = connection.makefile("rb")
    assert file.read(24).startswith(b"PRI * HTTP/2.0")
    while head := file.read(9):
        file.read(int.from_bytes(head[:3], "big"))
        yield head[3]


@contextmanager
def refusing_streams() -> Iterator[tuple[str, list[str]]]:
    """A server that speaks HTTP/2 only to refuse; its URL, and the requests it got."""
    log: list[str] = []

    def serve(connection: ssl.SSLSocket) -> None:
        if connection.selected_alpn_protocol() == "h2":
            connection.sendall(SETTINGS_FRAME)
            for kind in frames(connection):
                if kind == 1:  # HEADERS
                    log.append("h2")
                    connection.sendall(REFUSED)
        else:
            log.append(connection.recv(65536).split(b" ")[0].decode())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with listening(serve, tls_context("h2", "http/1.1")) as port:
        yield f"https://127.0.0.1:{port}/", log


@pytest.mark.parametrize(("method", "sent"), [("GET", ["h2", "GET"]), ("POST", ["POST"])])
def test_streams_that_the_server_refuses(
    client: Client, monkeypatch: pytest.MonkeyPatch, method: str, sent: list[str]
) -> None:
    """Requests that are not idempotent take no path on which libcurl would send them again."""
    if not pycurl.version_info()[4] & pycurl.VERSION_HTTP2:
        pytest.skip("this libcurl speaks no HTTP/2")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with refusing_streams() as (url, log):
        assert client.fetch(Request(url, method=method)).body == b"ok"
    assert log == sent


def test_own_connections_do_not_fill_the_pool(client: Client, site: Site) -> None:
    site.answer("/", b"ok")

    async def job(downloader: Any) -> None:
        for method in ("GET", *["POST"] * 5, "GET"):
            request = Request(f"{site.url}/", method=method)
            await downloader.fetch(request, FetchLimits(), {})

    client.run(job)
    used = [got.connection for got in site.seen]
    assert used == [1, 2, 3, 4, 5, 6, 1]
