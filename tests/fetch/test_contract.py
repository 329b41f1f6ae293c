"""The contract of both downloaders, against a real server, beyond that for authors
(crawlframe/testing/downloader_contract.py); and redirects, which are the same for all."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from crawlframe.errors import (
    BadRedirect,
    BodyTooLarge,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchError,
    FetchTimeout,
    TlsError,
    TooManyRedirects,
)
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.journey.context import FetchContext, FetchLimits, SendTime
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.journey import Journey
from crawlframe.request.request import Request

from .conftest import CERTIFICATE, Client, Exchange, Site, listening

PASSING = {ConnectError, ConnectionLost, DnsError, FetchTimeout}  # another try may help


def refuses(client: Client, kind: type[FetchError], url: str, **options: Any) -> str:
    """The message of the error with which a fetch must end; it names the URL."""
    with pytest.raises(kind) as caught:
        client.fetch(url, **options)
    assert type(caught.value) is kind
    assert caught.value.retryable is (kind in PASSING)
    assert url in str(caught.value)
    return str(caught.value)


# -- plain answers ------------------------------------------------------------------------------


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


def test_body_that_ends_with_the_connection(client: Client, site: Site) -> None:
    site.raw("/", b"HTTP/1.0 200 OK\r\n\r\nold but good")
    assert client.fetch(f"{site.url}/").body == b"old but good"


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
    curl: Client, site: Site, location: bytes, target: str
) -> None:
    """As Chromium asks for them."""
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n"
    site.raw("/", head % location, keep=True)
    curl.fetch(f"{site.url}/")
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
                    send_time=SendTime(
                        None, lambda: sent.append(asyncio.get_running_loop() is loop)
                    )
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
@pytest.mark.parametrize(("method", "most"), [("GET", 2), ("PUT", 2), ("POST", 1), ("LOCK", 1)])
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


# -- limits -------------------------------------------------------------------------------------


def test_body_of_exactly_the_limit(client: Client, site: Site) -> None:
    site.answer("/", b"x" * 1000)
    assert len(client.fetch(f"{site.url}/", max_body=1000).body) == 1000
    refuses(client, BodyTooLarge, f"{site.url}/", max_body=999)


def test_silence_ends_with_the_stall_limit(client: Client, site: Site) -> None:
    @site.on("/")
    async def silence(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    refuses(client, FetchTimeout, f"{site.url}/", timeout=30, stall=1)


def test_no_time_left_is_no_fetch(client: Client, site: Site) -> None:
    refuses(client, FetchTimeout, f"{site.url}/", timeout=0)
    assert not site.seen


def test_timeout_counts_over_redirects(curl: Client, site: Site) -> None:
    @site.on("/")
    async def slow(exchange: Exchange) -> bool:
        await asyncio.sleep(0.15)
        await exchange.send(b"HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")
        return True

    refuses(curl, FetchTimeout, f"{site.url}/", timeout=0.5, max_redirects=1000)
    assert 1 < len(site.seen) < 10


# -- TLS ----------------------------------------------------------------------------------------


def test_trusted_certificate(client: Client, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.answer("/", b"secret")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert client.fetch(f"{site.tls_url}/").body == b"secret"


def test_tls_to_a_plain_server(client: Client, site: Site) -> None:
    refuses(client, TlsError, site.url.replace("http:", "https:") + "/")


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


# -- redirects ----------------------------------------------------------------------------------


def test_redirects_are_followed(curl: Client, site: Site) -> None:
    site.answer("/a", b"x", 301, {"Location": "/b?q=1#part"})
    site.answer("/b", b"y", 307, {"Location": "c/../d"})
    site.answer("/d", b"here")
    response = curl.fetch(f"{site.url}/a")
    assert (response.url, response.body) == (f"{site.url}/d", b"here")
    assert response.redirects == (f"{site.url}/a", f"{site.url}/b?q=1")


def test_redirect_loop(curl: Client, site: Site) -> None:
    site.answer("/", status=302, headers={"Location": "/"})
    assert "more than 3" in refuses(curl, TooManyRedirects, f"{site.url}/", max_redirects=3)
    assert len(site.seen) == 4


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://h/", "http://", "data:,"])
def test_redirects_out_of_the_web(curl: Client, site: Site, location: str) -> None:
    site.answer("/", status=302, headers={"Location": location})
    assert location in refuses(curl, BadRedirect, f"{site.url}/")


def test_offsite_redirect(curl: Client, site: Site) -> None:
    asked: list[str] = []

    def allowed(hostname: str) -> bool:
        asked.append(hostname)
        return hostname == "127.0.0.1"

    site.answer("/", status=302, headers={"Location": "/next"})
    site.answer("/next", status=302, headers={"Location": "http://localhost/x"})
    with pytest.raises(BadRedirect, match="allowed_domains"):
        curl.fetch(f"{site.url}/", allowed=allowed)
    assert asked == ["127.0.0.1", "localhost"]


def test_redirect_status_without_location_is_an_answer(curl: Client, site: Site) -> None:
    site.answer("/", b"nowhere", 302)
    assert curl.fetch(f"{site.url}/").status == 302


def test_huge_body_of_a_redirect_does_not_matter(curl: Client, site: Site) -> None:
    site.answer("/", b"x" * 50_000, 302, {"Location": "/next"})
    site.answer("/next", b"small")
    assert curl.fetch(f"{site.url}/", max_body=1000).body == b"small"


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
    curl: Client, site: Site, status: int, method: str, then: str
) -> None:
    site.answer("/", b"", status, {"Location": "/next"})
    site.answer("/next", b"")
    body = b"data" if method in ("POST", "PUT") else None
    curl.fetch(
        Request(f"{site.url}/", method=method, body=body), {"Content-Type": "text/x", "X-A": "1"}
    )
    got = site.seen[1]
    assert got.method == then
    assert got.header("X-A") == "1"
    if then == "GET":
        assert (got.body, got.header("Content-Type")) == (b"", None)
    else:
        assert got.body == (body or b"")


def test_secrets_stay_with_their_host(curl: Client, site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost")
    site.answer("/", b"", 302, {"Location": "/same"})
    site.answer("/same", b"", 302, {"Location": f"{other}/other"})
    site.answer("/other", b"", 302, {"Location": f"{site.url}/back"})
    site.answer("/back")
    secrets = {"Authorization": "Basic Zm9v", "cookie": "a=1", "X-Plain": "p"}
    curl.fetch(f"{site.url}/", secrets)
    assert len(site.seen) == 4
    assert [got.header("Authorization") for got in site.seen] == ["Basic Zm9v"] * 2 + [None] * 2
    assert [got.header("Cookie") for got in site.seen] == ["a=1"] * 2 + [None] * 2
    assert [got.header("X-Plain") for got in site.seen] == ["p"] * 4


def test_cookies_of_the_request_stay_with_its_host(curl: Client, site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost")
    site.answer("/", b"", 302, {"Location": f"{other}/other"})
    site.answer("/other")
    curl.fetch(Request(f"{site.url}/", cookies={"a": "1"}), jar=TaskCookies())
    assert [got.header("Cookie") for got in site.seen] == ["a=1", None]


def test_password_in_the_url_stays_with_its_host(curl: Client, site: Site) -> None:
    url = site.url.replace("//", "//me:secret@")
    other = site.url.replace("127.0.0.1", "localhost")
    site.answer("/", b"", 302, {"Location": "/same"})
    site.answer("/same", b"", 302, {"Location": f"{other}/other"})
    site.answer("/other")
    curl.fetch(f"{url}/")
    sent = [got.header("Authorization") for got in site.seen]
    assert sent == ["Basic bWU6c2VjcmV0"] * 2 + [None]


# -- cookies ------------------------------------------------------------------------------------


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
