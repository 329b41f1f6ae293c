"""The contract of both downloaders, against a real server."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import brotli
import pytest
import uvloop
from backports import zstd

from crawlframe.errors import (
    BadEncoding,
    BadRedirect,
    BadResponse,
    BodyTooLarge,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchError,
    FetchTimeout,
    PrivateAddress,
    TlsError,
    TooManyRedirects,
)
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.journey.context import FetchContext, FetchLimits, SendTime
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.journey import Journey
from crawlframe.request.request import Request

from .conftest import CERTIFICATE, Client, Exchange, Site

MEGABYTE = 1 << 20
PASSING = {ConnectError, ConnectionLost, DnsError, FetchTimeout}  # another try may help
TEXT = b"<p>hello " + b"world " * 2000


def compressed(data: bytes) -> bytes:
    """Deterministic: it is part of the names of tests, on which the processes of a run must
    agree."""
    return gzip.compress(data, mtime=0)


def refuses(client: Client, kind: type[FetchError], url: str, **options: Any) -> str:
    """The message of the error with which a fetch must end; it names the URL."""
    with pytest.raises(kind) as caught:
        client.fetch(url, **options)
    assert type(caught.value) is kind
    assert caught.value.retryable is (kind in PASSING)
    assert url in str(caught.value)
    return str(caught.value)


# -- plain answers ------------------------------------------------------------------------------


def test_answer_has_status_headers_and_body(client: Client, site: Site) -> None:
    head = b"HTTP/1.1 201 Made\r\nX-Two: a\r\nx-two: b\r\nX-Odd: caf\xe9\r\n"
    site.raw("/", head + b"Content-Length: 5\r\n\r\nhello", keep=True)
    response = client.fetch(f"{site.url}/")
    assert (response.status, response.body, response.url) == (201, b"hello", f"{site.url}/")
    assert response.headers.getall("X-TWO") == ["a", "b"]
    assert response.headers["x-odd"] == "café"
    assert response.redirects == ()
    assert response.elapsed > 0


@pytest.mark.parametrize(
    "target", ["/a|b^c?d=|`'\"{}[]", "/%7Euser/%e4?%e4=%7e", "/100%?q=50%", "/[1]{2}/(3)!$&*+,;=:@"]
)
def test_a_url_is_sent_as_it_is(client: Client, site: Site, target: str) -> None:
    """Not quoted further: the server, robots.txt and the signature of a login see the same URL."""
    url = Request(site.url + target).url
    site.answer(url.removeprefix(site.url).partition("?")[0], b"found")
    assert client.fetch(url).body == b"found"
    assert site.seen[0].target == url.removeprefix(site.url)


def test_request_is_sent_as_given(client: Client, site: Site) -> None:
    site.answer("/form")
    request = Request(f"{site.url}/form?a=%20b", method="PUT", body="data")
    client.fetch(request, {"User-Agent": "me/1", "X-Odd": "né你x", "X-Empty": ""})
    got = site.seen[0]
    assert (got.method, got.target, got.body) == ("PUT", "/form?a=%20b", b"data")
    assert got.header("User-Agent") == "me/1"
    assert got.header("X-Odd") == "né你x".encode().decode("latin-1")
    assert got.header("X-Empty") == ""
    assert got.header("Content-Type") is None
    assert got.header("Expect") is None


def test_text_of_people_is_sent_as_utf8_and_that_of_servers_as_it_came(
    client: Client, site: Site
) -> None:
    site.answer("/", headers={"Set-Cookie": "a=\xfc", "ETag": '"\xfc"'})
    jar = TaskCookies()
    etag = client.fetch(f"{site.url}/", {"User-Agent": "B\xf6t/1"}, jar=jar).headers["ETag"]
    client.fetch(f"{site.url}/", {"If-None-Match": etag}, jar=jar)
    first, second = site.seen
    assert first.header("User-Agent") == "B\xc3\xb6t/1"  # as the test's server reads it
    assert (second.header("Cookie"), second.header("If-None-Match")) == ("a=\xfc", '"\xfc"')


def test_nothing_is_sent_that_was_not_asked_for(client: Client, site: Site) -> None:
    site.answer("/")
    client.fetch(f"{site.url}/", {"User-Agent": "me"})
    names = {name.lower() for name, _ in site.seen[0].headers}
    assert names <= {"host", "user-agent", "accept", "accept-encoding", "connection"}


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "OPTIONS"])
def test_methods_without_body(client: Client, site: Site, method: str) -> None:
    site.answer("/", b"done")
    assert client.fetch(Request(f"{site.url}/", method=method)).body == b"done"
    assert (site.seen[0].method, site.seen[0].body) == (method, b"")


def test_large_upload(client: Client, site: Site) -> None:
    site.answer("/", b"done")
    body = bytes(range(256)) * 8192
    assert client.fetch(Request(f"{site.url}/", method="POST", body=body)).body == b"done"
    assert site.seen[0].body == body


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Encoding: gzip\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Same\r\nContent-Encoding: gzip\r\nContent-Length: 700\r\n\r\n"),
    ],
)
def test_answers_without_body(client: Client, site: Site, method: str, answer: bytes) -> None:
    site.raw("/", answer, keep=True)
    assert client.fetch(Request(f"{site.url}/", method=method)).body == b""


def test_method_of_one_fetch_does_not_stick_to_the_next(client: Client, site: Site) -> None:
    site.answer("/", b"hello")

    async def job(downloader: Any) -> list[bytes]:
        first = Request(f"{site.url}/", method="POST", body="x", headers={"X-A": "1"})
        requests = [first, Request(f"{site.url}/", method="HEAD"), Request(f"{site.url}/")]
        return [(await downloader.fetch(r, FetchLimits(), r.headers)).body for r in requests]

    assert client.run(job) == [b"hello", b"", b"hello"]
    assert [got.method for got in site.seen] == ["POST", "HEAD", "GET"]
    assert site.seen[2].header("Content-Length") is None
    assert site.seen[2].header("X-A") is None


def test_chunked_body_and_trailers(client: Client, site: Site) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n"
    site.raw("/", head + b"5\r\nhello\r\n6;note=1\r\n world\r\n0\r\nX-End: yes\r\n\r\n", keep=True)
    response = client.fetch(f"{site.url}/")
    assert response.body == b"hello world"
    assert response.headers["Transfer-Encoding"] == "chunked"


def test_body_that_ends_with_the_connection(client: Client, site: Site) -> None:
    site.raw("/", b"HTTP/1.0 200 OK\r\n\r\nold but good")
    assert client.fetch(f"{site.url}/").body == b"old but good"


def test_many_headers(client: Client, site: Site) -> None:
    site.answer("/", b"x", headers={f"X-{i}": "v" * 200 for i in range(98)})
    response = client.fetch(f"{site.url}/")
    assert all(response.headers[f"x-{i}"] == "v" * 200 for i in range(98))


def test_folded_header(client: Client, site: Site) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Long: one\r\n\t two\r\nContent-Length: 0\r\n\r\n"
    site.raw("/", head, keep=True)
    assert client.fetch(f"{site.url}/").headers["X-Long"].split() == ["one", "two"]


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"/ziel-\xfc", "/ziel-%FC"),
        ("/ziel-\xfc".encode(), "/ziel-%C3%BC"),
        (b"/\xfc-\xc3\xbc?q=\xfc", "/%FC-%C3%BC?q=%FC"),
        ("/voil\xe0".encode(), "/voil%C3%A0"),  # its last byte is a space in Latin-1
        ("/\u4f60\u2026".encode(), "/%E4%BD%A0%E2%80%A6"),
        ("/\u0431".encode("koi8-r"), "/%C2"),
        ("/\u65e5".encode("shift-jis"), "/%93%FA"),
        (b"/" + bytes(range(0x80, 0x100)), "/" + "".join(f"%{n:02X}" for n in range(0x80, 0x100))),
    ],
)
def test_bytes_of_a_location_are_those_of_the_url(
    client: Client, site: Site, location: bytes, target: str
) -> None:
    """As Chromium asks for them."""
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n"
    site.raw("/", head % location, keep=True)
    client.fetch(f"{site.url}/")
    assert site.seen[1].target == target


def test_keep_alive_uses_one_connection(client: Client, site: Site) -> None:
    """Of curl; further or late bytes of a server must belong to no other URL."""
    site.answer("/", b"x" * 3000)

    async def job(downloader: Any) -> None:
        for _ in range(20):
            await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})

    client.run(job)
    connections = 1 if client.kind is CurlDownloader else 20
    assert (len(site.seen), site.connections) == (20, connections)


def test_the_time_of_sending_is_reported(client: Client, site: Site) -> None:
    site.answer("/", b"ok")
    sent: list[bool] = []

    async def job(downloader: Any) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            journey = Journey(
                Request(f"{site.url}/"),
                FetchLimits(),
                {},
                context=FetchContext(
                    send_time=SendTime(sent=lambda: sent.append(asyncio.get_running_loop() is loop))
                ),
            )
            await journey.run(downloader.transfer)
        await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})  # not asked

    client.run(job)
    assert sent == [True] * 3


def test_nothing_is_sent_before_its_time(client: Client, site: Site) -> None:
    times: list[float] = []
    site.answer("/", b"ok")

    async def job(downloader: Any) -> None:
        due = time.monotonic() + 1.2
        send_time = SendTime(due, lambda: times.append(time.monotonic() - due))
        journey = Journey(
            Request(f"{site.url}/"),
            FetchLimits(timeout=1.0),
            {},
            context=FetchContext(send_time=send_time),
        )
        response = await journey.run(downloader.transfer)
        assert (
            response.elapsed < 1.0
        )  # neither the timeout nor the time that it took counts the wait
        assert send_time.elapsed() < 1.0

    client.run(job)
    assert len(times) == len(site.seen) == 1
    assert times[0] >= 0


def test_connection_closed_while_idle_is_replaced(client: Client, site: Site) -> None:
    site.raw("/", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", keep=False)

    async def job(downloader: Any) -> list[bytes]:
        bodies = []
        for _ in range(5):
            response = await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})
            bodies.append(response.body)
            await asyncio.sleep(0.02)
        return bodies

    assert client.run(job) == [b"ok"] * 5


def test_two_hundred_at_once(client: Client, site: Site) -> None:
    @site.on("/echo")
    async def echo(exchange: Exchange) -> bool:
        await asyncio.sleep(0.01)
        body = exchange.target.encode() * 50
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return True

    async def job(downloader: Any) -> list[bytes]:
        fetches = [
            downloader.fetch(Request(f"{site.url}/echo?{i}"), FetchLimits(), {}) for i in range(200)
        ]
        return [response.body for response in await asyncio.gather(*fetches)]

    assert client.run(job) == [b"/echo?%d" % i * 50 for i in range(200)]


# -- connections that break ---------------------------------------------------------------------


async def after_pooled_ones(downloader: Any, site: Site, request: Request) -> Any:
    """The response to ``request``, or its error, while there are eight idle connections."""
    warm = [downloader.fetch(Request(f"{site.url}/warm?{i}"), FetchLimits(), {}) for i in range(8)]
    await asyncio.gather(*warm)
    assert site.connections == 8
    fetch = downloader.fetch(request, FetchLimits(), request.headers)
    return (await asyncio.gather(fetch, return_exceptions=True))[0]


def resets(site: Site, fresh_too: bool, idle: int = 8, keep: bool = True) -> None:
    """``/`` is never answered on ``idle`` connections that were used before; ``fresh_too``: nor on
    a fresh one. Without ``keep`` the idle ones are closed."""

    @site.on("/warm")
    async def warm(exchange: Exchange) -> bool:
        while site.connections < idle:
            await asyncio.sleep(0.01)
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return keep

    @site.on("/")
    async def serve(exchange: Exchange) -> bool:
        if exchange.connection <= idle or fresh_too:
            reset = struct.pack("ii", 1, 0)
            sock = exchange.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            exchange.writer.transport.abort()
            return False
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        return True


@pytest.mark.parametrize("fresh_too", [False, True])
@pytest.mark.parametrize(
    ("method", "most"),
    [("GET", 2), ("HEAD", 2), ("PUT", 2), ("DELETE", 2), ("POST", 1), ("PATCH", 1), ("LOCK", 1)],
)
def test_requests_on_connections_that_the_server_resets(
    client: Client, site: Site, method: str, most: int, fresh_too: bool
) -> None:
    """By the server's log: a request that is not idempotent is sent once, others at most twice."""
    resets(site, fresh_too)
    body = b"data" if method in ("PUT", "POST", "PATCH") else None
    request = Request(f"{site.url}/", method=method, body=body)

    async def job(downloader: Any) -> Any:
        return await after_pooled_ones(downloader, site, request)

    outcome = client.run(job)
    sent = [got for got in site.seen if got.target == "/"]
    assert 1 <= len(sent) <= most
    assert {(got.method, got.body) for got in sent} == {(method, body or b"")}
    if fresh_too:
        assert type(outcome) is ConnectionLost
    else:
        assert outcome.status == 200


def test_a_connection_in_place_of_one_that_was_closed_is_fresh(client: Client, site: Site) -> None:
    """So a request lost on it has been sent, and is not sent again at once."""
    resets(site, fresh_too=True, idle=1, keep=False)

    async def job(downloader: Any) -> Any:
        warm = Request(f"{site.url}/warm")
        await downloader.fetch(warm, FetchLimits(), {})
        while site.still_open:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # its end arrives
        return await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})

    with pytest.raises(ConnectionLost):
        client.run(job)
    assert [got.target for got in site.seen] == ["/warm", "/"]


# -- content codings ----------------------------------------------------------------------------


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", compressed(TEXT)),
        ("GZip", compressed(TEXT[:100]) + compressed(TEXT[100:]) + b"junk"),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("br", brotli.compress(TEXT)),
        ("zstd", zstd.compress(TEXT[:50]) + zstd.compress(TEXT[50:])),
        ("deflate, gzip", compressed(zlib.compress(TEXT))),
        ("identity", TEXT),
        ("made-up", TEXT),
    ],
)
def test_content_codings(client: Client, site: Site, coding: str, body: bytes) -> None:
    site.answer("/", body, headers={"Content-Encoding": coding})
    assert client.fetch(f"{site.url}/").body == TEXT


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"<p>not compressed at all"),
        ("gzip", compressed(TEXT)[:-20]),
        ("deflate", zlib.compress(TEXT)[:-10]),
        ("br", brotli.compress(TEXT)[:-10]),
        ("br", b"\xff\xff\xff\xff"),
        ("zstd", zstd.compress(TEXT)[:-3]),
        ("zstd", b"nothing"),
        ("gzip, gzip, gzip, gzip, gzip", compressed(TEXT)),
    ],
)
def test_bad_content_codings(client: Client, site: Site, coding: str, body: bytes) -> None:
    site.answer("/", body, headers={"Content-Encoding": coding})
    refuses(client, BadEncoding, f"{site.url}/")


BOMBS = {
    "gzip": lambda data: gzip.compress(data, 1),
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", BOMBS)
def test_bombs_do_not_go_off(client: Client, site: Site, coding: str) -> None:
    bomb = BOMBS[coding](bytes(64 * MEGABYTE))
    assert len(bomb) < MEGABYTE
    site.answer("/", bomb, headers={"Content-Encoding": coding})
    tracemalloc.start()
    try:
        refuses(client, BodyTooLarge, f"{site.url}/", max_body=2 * MEGABYTE)
        assert tracemalloc.get_traced_memory()[1] < 12 * MEGABYTE
    finally:
        tracemalloc.stop()


# -- limits -------------------------------------------------------------------------------------


def test_announced_body_over_the_limit_is_not_read(client: Client, site: Site) -> None:
    site.raw("/", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", keep=True)  # and then nothing
    assert "1000 bytes" in refuses(client, BodyTooLarge, f"{site.url}/", max_body=1000)


@pytest.mark.parametrize("chunked", [True, False])
def test_endless_body_is_cut_off(client: Client, site: Site, chunked: bool) -> None:
    stopped = threading.Event()

    @site.on("/")
    async def endless(exchange: Exchange) -> None:
        coding = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        piece = b"10000\r\n" + bytes(65536) + b"\r\n" if chunked else bytes(65536)
        try:
            await exchange.send(b"HTTP/1.1 200 OK\r\n" + coding + b"\r\n")
            while True:
                await exchange.send(piece)
        finally:
            stopped.set()

    tracemalloc.start()
    try:
        refuses(client, BodyTooLarge, f"{site.url}/", max_body=MEGABYTE)
        assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert stopped.wait(10)
    assert site.seen[0].sent < 32 * MEGABYTE


def test_body_of_exactly_the_limit(client: Client, site: Site) -> None:
    site.answer("/", b"x" * 1000)
    assert len(client.fetch(f"{site.url}/", max_body=1000).body) == 1000
    refuses(client, BodyTooLarge, f"{site.url}/", max_body=999)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\n\r\nbody"])
def test_slow_drip_ends_with_the_timeout(client: Client, site: Site, start: bytes) -> None:
    @site.on("/")
    async def drip(exchange: Exchange) -> None:
        await exchange.send(start)
        for byte in b"HTTP/1.1 200 OK" + b"x" * 1000:  # each read of the client gets something
            await asyncio.sleep(0.05)
            await exchange.send(bytes([byte]))

    assert "0.4 s" in refuses(client, FetchTimeout, f"{site.url}/", timeout=0.4)


def test_silence_ends_with_the_stall_limit(client: Client, site: Site) -> None:
    @site.on("/")
    async def silence(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    refuses(client, FetchTimeout, f"{site.url}/", timeout=30, stall=1)


def test_no_time_left_is_no_fetch(client: Client, site: Site) -> None:
    refuses(client, FetchTimeout, f"{site.url}/", timeout=0)
    assert not site.seen


def test_timeout_counts_over_redirects(client: Client, site: Site) -> None:
    @site.on("/")
    async def slow(exchange: Exchange) -> bool:
        await asyncio.sleep(0.15)
        await exchange.send(b"HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")
        return True

    refuses(client, FetchTimeout, f"{site.url}/", timeout=0.5, max_redirects=1000)
    assert 1 < len(site.seen) < 10


# -- broken peers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello",
        b"",
    ],
)
def test_truncated_answers(client: Client, site: Site, answer: bytes) -> None:
    site.raw("/", answer)
    refuses(client, ConnectionLost, f"{site.url}/")


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage without any sense\r\n\r\n" * 10,
        b"\x15\x03\x01\x00\x02\x02" * 20,
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 400_000 + b"\r\n\r\n",
    ],
)
def test_garbage(client: Client, site: Site, answer: bytes) -> None:
    site.raw("/", answer)
    refuses(client, BadResponse, f"{site.url}/")


def test_reset_connection(client: Client, site: Site) -> None:
    @site.on("/")
    async def reset(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        exchange.writer.transport.abort()

    refuses(client, ConnectionLost, f"{site.url}/")


def test_a_port_without_a_listener(client: Client) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    refuses(client, ConnectError, f"http://127.0.0.1:{port}/")


def test_unknown_host(client: Client) -> None:
    refuses(client, DnsError, "http://nowhere.invalid/")


# -- TLS ----------------------------------------------------------------------------------------


def test_self_signed_certificate_is_refused(client: Client, site: Site) -> None:
    site.answer("/", b"secret")
    assert "certificate" in refuses(client, TlsError, f"{site.tls_url}/").lower()
    assert not site.seen


def test_trusted_certificate(client: Client, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.answer("/", b"secret")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert client.fetch(f"{site.tls_url}/").body == b"secret"


def test_tls_to_a_plain_server(client: Client, site: Site) -> None:
    refuses(client, TlsError, site.url.replace("http:", "https:") + "/")


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that gives each connection to ``serve``; the port."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                with connection, suppress(OSError):
                    connection.settimeout(10)
                    serve(connection)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def reset(connection: socket.socket) -> None:
    """Ends it with an RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def reset_at_once(connection: socket.socket) -> None:
    connection.recv(1)
    reset(connection)


def close_after_hello(connection: socket.socket) -> None:
    connection.recv(65536)


def close_in_the_answer(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"\x16\x03\x03\x00\x50\x02")


@pytest.mark.parametrize("serve", [reset_at_once, close_after_hello, close_in_the_answer])
def test_connection_lost_in_the_tls_handshake(
    client: Client, serve: Callable[[socket.socket], None]
) -> None:
    """It is not the certificate's fault, and may pass."""
    with listening(serve) as port:
        refuses(client, ConnectionLost, f"https://127.0.0.1:{port}/")


def test_alert_in_the_tls_handshake(client: Client) -> None:
    def alert(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"\x15\x03\x03\x00\x02\x02\x28")  # handshake_failure
        connection.recv(1)

    with listening(alert) as port:
        refuses(client, TlsError, f"https://127.0.0.1:{port}/")


# -- where a crawl may go -----------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_refused(client: Client, site: Site, host: str) -> None:
    site.answer("/", b"intern")
    url = Request(site.url.replace("127.0.0.1", host) + "/").url
    assert "CRAWLFRAME_ALLOW_PRIVATE" in refuses(client, PrivateAddress, url, allow=())
    assert not site.seen


def test_private_addresses_are_not_even_connected_to(client: Client) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        refuses(client, PrivateAddress, url, allow=())
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_redirect_to_a_private_address_is_refused(client: Client, site: Site) -> None:
    with closing(socket.create_server(("127.0.0.2", 0))) as listener:
        target = f"http://127.0.0.2:{listener.getsockname()[1]}/"
        site.answer("/", status=302, headers={"Location": target})
        with pytest.raises(PrivateAddress, match="redirected from"):
            client.fetch(f"{site.url}/", allow=(ipaddress.ip_network("127.0.0.1/32"),))


def test_proxies_of_the_environment_are_not_used(
    client: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    site.answer("/", b"direct")
    assert client.fetch(f"{site.url}/").body == b"direct"


# -- redirects ----------------------------------------------------------------------------------


def test_redirects_are_followed(client: Client, site: Site) -> None:
    site.answer("/a", b"x", 301, {"Location": "/b?q=1#part"})
    site.answer("/b", b"y", 307, {"Location": "c/../d"})
    site.answer("/d", b"here")
    response = client.fetch(f"{site.url}/a")
    assert (response.url, response.body) == (f"{site.url}/d", b"here")
    assert response.redirects == (f"{site.url}/a", f"{site.url}/b?q=1")


def test_location_of_raw_utf8_bytes(client: Client, site: Site) -> None:
    head = "HTTP/1.1 302 Go\r\nLocation: /größe\r\nContent-Length: 0\r\n\r\n".encode()
    site.raw("/", head, keep=True)
    site.answer("/gr%C3%B6%C3%9Fe", b"big")
    assert client.fetch(f"{site.url}/").body == b"big"


def test_redirect_loop(client: Client, site: Site) -> None:
    site.answer("/", status=302, headers={"Location": "/"})
    assert "more than 3" in refuses(client, TooManyRedirects, f"{site.url}/", max_redirects=3)
    assert len(site.seen) == 4


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://h/", "http://", "data:,"])
def test_redirects_out_of_the_web(client: Client, site: Site, location: str) -> None:
    site.answer("/", status=302, headers={"Location": location})
    assert location in refuses(client, BadRedirect, f"{site.url}/")


def test_offsite_redirect(client: Client, site: Site) -> None:
    asked: list[str] = []

    def allowed(hostname: str) -> bool:
        asked.append(hostname)
        return hostname == "127.0.0.1"

    site.answer("/", status=302, headers={"Location": "/next"})
    site.answer("/next", status=302, headers={"Location": "http://localhost/x"})
    with pytest.raises(BadRedirect, match="allowed_domains"):
        client.fetch(f"{site.url}/", allowed=allowed)
    assert asked == ["127.0.0.1", "localhost"]


def test_redirect_status_without_location_is_an_answer(client: Client, site: Site) -> None:
    site.answer("/", b"nowhere", 302)
    assert client.fetch(f"{site.url}/").status == 302


def test_huge_body_of_a_redirect_does_not_matter(client: Client, site: Site) -> None:
    site.answer("/", b"x" * 50_000, 302, {"Location": "/next"})
    site.answer("/next", b"small")
    assert client.fetch(f"{site.url}/", max_body=1000).body == b"small"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "DELETE", "GET"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (302, "PUT", "PUT"),
        (303, "HEAD", "HEAD"),
    ],
)
def test_method_after_redirect(
    client: Client, site: Site, status: int, method: str, then: str
) -> None:
    site.answer("/", b"", status, {"Location": "/next"})
    site.answer("/next", b"")
    body = b"data" if method in ("POST", "PUT") else None
    client.fetch(
        Request(f"{site.url}/", method=method, body=body), {"Content-Type": "text/x", "X-A": "1"}
    )
    got = site.seen[1]
    assert got.method == then
    assert got.header("X-A") == "1"
    if then == "GET":
        assert (got.body, got.header("Content-Type")) == (b"", None)
    else:
        assert got.body == (body or b"")


def test_secrets_stay_with_their_host(client: Client, site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost")
    site.answer("/", b"", 302, {"Location": "/same"})
    site.answer("/same", b"", 302, {"Location": f"{other}/other"})
    site.answer("/other", b"", 302, {"Location": f"{site.url}/back"})
    site.answer("/back")
    secrets = {"Authorization": "Basic Zm9v", "cookie": "a=1", "X-Plain": "p"}
    client.fetch(f"{site.url}/", secrets)
    assert len(site.seen) == 4
    assert [got.header("Authorization") for got in site.seen] == ["Basic Zm9v"] * 2 + [None] * 2
    assert [got.header("Cookie") for got in site.seen] == ["a=1"] * 2 + [None] * 2
    assert [got.header("X-Plain") for got in site.seen] == ["p"] * 4


def test_cookies_of_the_request_stay_with_its_host(client: Client, site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost")
    site.answer("/", b"", 302, {"Location": f"{other}/other"})
    site.answer("/other")
    client.fetch(Request(f"{site.url}/", cookies={"a": "1"}), jar=TaskCookies())
    assert [got.header("Cookie") for got in site.seen] == ["a=1", None]


def test_password_in_the_url_stays_with_its_host(client: Client, site: Site) -> None:
    url = site.url.replace("//", "//me:secret@")
    other = site.url.replace("127.0.0.1", "localhost")
    site.answer("/", b"", 302, {"Location": "/same"})
    site.answer("/same", b"", 302, {"Location": f"{other}/other"})
    site.answer("/other")
    client.fetch(f"{url}/")
    sent = [got.header("Authorization") for got in site.seen]
    assert sent == ["Basic bWU6c2VjcmV0"] * 2 + [None]


# -- cookies ------------------------------------------------------------------------------------


def test_cookies_of_a_task(client: Client, site: Site) -> None:
    head = b"HTTP/1.1 302 Go\r\nLocation: /in\r\nContent-Length: 0\r\n"
    site.raw("/", head + b"Set-Cookie: s=1; Path=/\r\nSet-Cookie: t=2\r\n\r\n", keep=True)
    site.answer("/in", headers={"Set-Cookie": "s=3; Path=/"})
    jar = TaskCookies()
    client.fetch(Request(f"{site.url}/", cookies={"mine": "0"}), jar=jar)
    assert site.seen[0].header("Cookie") == "mine=0"
    assert set((site.seen[1].header("Cookie") or "").split("; ")) == {"mine=0", "s=1", "t=2"}
    client.fetch(f"{site.url}/in", jar=jar)
    assert set((site.seen[2].header("Cookie") or "").split("; ")) == {"s=3", "t=2"}


def test_without_a_jar_only_the_cookies_of_the_request(client: Client, site: Site) -> None:
    site.answer("/", headers={"Set-Cookie": "s=1"})

    async def job(downloader: Any) -> None:
        for cookies in ({"a": "1", "b": "2"}, {}):
            request = Request(f"{site.url}/", cookies=cookies)
            await downloader.fetch(request, FetchLimits(), {})

    client.run(job)
    assert [got.header("Cookie") for got in site.seen] == ["a=1; b=2", None]


# -- cancellation -------------------------------------------------------------------------------


def test_cancelled_fetches_leave_the_client_usable(client: Client, site: Site) -> None:
    waiting = threading.Semaphore(0)
    gone = threading.Semaphore(0)
    site.answer("/", b"fine")

    @site.on("/slow")
    async def slow(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\n\r\nstart")
        waiting.release()
        try:
            while True:
                await asyncio.sleep(0.02)
                await exchange.send(b".")
        finally:
            gone.release()

    async def job(downloader: Any) -> list[bytes]:
        bodies = []
        for _ in range(3):
            tasks = [
                asyncio.ensure_future(
                    downloader.fetch(Request(f"{site.url}/slow?{i}"), FetchLimits(), {})
                )
                for i in range(8)
            ]
            for _ in tasks:
                assert await asyncio.to_thread(waiting.acquire, timeout=20)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            fetches = [
                downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {}) for _ in range(16)
            ]
            bodies += [response.body for response in await asyncio.gather(*fetches)]
        for _ in range(24):
            assert await asyncio.to_thread(gone.acquire, timeout=10)  # the server noticed
        return bodies

    assert client.run(job, concurrency=16) == [b"fine"] * 48


def test_cancelled_at_every_moment(client: Client, site: Site) -> None:
    site.answer("/", b"fine" * 5000)

    async def job(downloader: Any) -> int:
        whole = 0
        for turns in range(30):
            fetch = asyncio.ensure_future(
                downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            fetch.cancel()
            after = await downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {})
            whole += after.body == b"fine" * 5000
            await asyncio.gather(fetch, return_exceptions=True)
        return whole

    assert client.run(job) == 30


def test_close_ends_fetches_under_way(client: Client, site: Site) -> None:
    started = threading.Event()

    @site.on("/")
    async def silence(exchange: Exchange) -> None:
        started.set()
        await asyncio.sleep(60)

    async def job(downloader: Any) -> Any:
        fetch = asyncio.ensure_future(downloader.fetch(Request(f"{site.url}/"), FetchLimits(), {}))
        assert await asyncio.to_thread(started.wait, 20)
        await downloader.close()
        return (await asyncio.gather(fetch, return_exceptions=True))[0]

    assert isinstance(client.run(job), ConnectionLost | asyncio.CancelledError)


def test_plain_asyncio_loop(client: Client, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvloop, "run", asyncio.run)
    site.answer("/", b"fine")
    assert client.fetch(f"{site.url}/").body == b"fine"
