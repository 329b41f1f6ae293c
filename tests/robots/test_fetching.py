"""The table of robots.txt: answers of servers, and their effect on the pages of the origin.

Each case is a real exchange with a server on loopback; ``forbidden``, ``allowed`` and ``waits`` are
the outcomes of /private, which each robots.txt here forbids."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import BadUrl, PrivateAddress
from crawlframe.fetch.downloader import Downloader
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.reading import MAX_FILE, Fetched, judge, read
from crawlframe.robots.rules import MAX_BYTES, Rules
from crawlframe.robots.state import SILENT, RobotsState, Status
from crawlframe.spider.settings import SpiderSettings
from tests.fetch.conftest import Exchange, Site

NOW = 1_800_000_000.0
RULES = b"User-agent: *\nDisallow: /private\n"
PAGE = b"<!DOCTYPE html><title>Welcome</title><p>User-agent: *<br>Disallow: /\n"
TEXT = {"Content-Type": "text/plain"}
HTML = {"Content-Type": "text/html; charset=utf-8"}
ROBOTS = "/robots.txt"
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
PADDING = b"# " + b"x" * 97 + b"\n"


class Case(NamedTuple):
    """``serve`` prepares the site; it may return another origin to ask."""

    name: str
    serve: Callable[[Site], str | None]
    status: Status
    private: str
    told: str = ""  # in the note
    timeout: float = 10.0


def answer(
    body: bytes = RULES, status: int = 200, headers: dict[str, str] | None = None
) -> Callable[[Site], None]:
    return lambda site: site.answer(ROBOTS, body, status, TEXT if headers is None else headers)


def redirect(
    target: str, status: int = 301, body: bytes = RULES, end: int = 200
) -> Callable[[Site], None]:
    """``target`` may name {site}, {other} (another name of the same server) and {tls}."""

    def serve(site: Site) -> None:
        other = site.url.replace("127.0.0.1", "localhost")
        where = target.format(site=site.url, other=other, tls=site.tls_url)
        site.answer(ROBOTS, status=status, headers={"Location": where})
        site.answer("/moved", body, end, TEXT)

    return serve


def chain(hops: int) -> Callable[[Site], None]:
    """So many redirects, then rules."""

    def serve(site: Site) -> None:
        paths = [ROBOTS, *(f"/{n}" for n in range(1, hops + 1))]
        for n in range(hops):
            site.answer(paths[n], status=302, headers={"Location": paths[n + 1]})
        site.answer(paths[-1], RULES, 200, TEXT)

    return serve


def loop(site: Site) -> None:
    site.answer(ROBOTS, status=302, headers={"Location": ROBOTS})


def refused(site: Site) -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def unknown_name(site: Site) -> str:
    return "http://robots.invalid"


def bad_certificate(site: Site) -> str:
    site.answer(ROBOTS, RULES, 200, TEXT)
    return site.tls_url


def hangs(site: Site) -> None:
    @site.on(ROBOTS)
    async def wait(exchange: Exchange) -> None:
        await asyncio.sleep(30)


def drips(site: Site) -> None:
    @site.on(ROBOTS)
    async def drip(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        for _ in range(900):
            await exchange.send(b"#")
            await asyncio.sleep(0.05)


def raw(data: bytes) -> Callable[[Site], None]:
    return lambda site: site.raw(ROBOTS, data)


FORBIDDEN, ALLOWED, WAITS = "forbidden", "allowed", "waits"
R, N, T, U = Status.RULES, Status.NO_RULES, Status.NOT_TEXT, Status.UNREACHABLE
CASES = [
    Case("rules", answer(), R, FORBIDDEN),
    Case("no content type", answer(headers={}), R, FORBIDDEN),
    Case("declared as binary", answer(headers={"Content-Type": "image/png"}), R, FORBIDDEN),
    Case("another success", answer(status=203), R, FORBIDDEN),
    Case("empty", answer(b""), N, ALLOWED, "empty"),
    Case("blank", answer(b"\n \n"), N, ALLOWED, "empty"),
    Case("no content", raw(b"HTTP/1.1 204 No\r\n\r\n"), N, ALLOWED, "empty"),
    Case("only a comment", answer(b"# hello\n"), R, ALLOWED),
    Case("404", answer(b"", 404), N, ALLOWED, "404"),
    Case("404 with rules", answer(RULES, 404), N, ALLOWED, "404"),
    Case("401", answer(b"", 401), N, ALLOWED, "401"),
    Case("403", answer(b"", 403), N, ALLOWED, "403"),
    Case("410", answer(b"", 410), N, ALLOWED, "410"),
    Case("429", answer(b"", 429), U, WAITS, "429"),
    Case("500", answer(b"", 500), U, WAITS, "500"),
    Case("503 with rules", answer(RULES, 503), U, WAITS, "503"),
    Case("599", answer(b"", 599), U, WAITS, "599"),
    Case("moved", redirect("/moved"), R, FORBIDDEN),
    Case("moved to another host", redirect("{other}/moved", 302), R, FORBIDDEN),
    Case("temporarily moved", redirect("{site}/moved", 307), R, FORBIDDEN),
    Case("permanently moved", redirect("moved", 308), R, FORBIDDEN),
    Case("five redirects", chain(5), R, FORBIDDEN),
    Case("six redirects", chain(6), N, ALLOWED, "more than 5 redirects"),
    Case("a loop", loop, N, ALLOWED, "more than 5 redirects"),
    Case("moved to nothing", redirect("/moved", end=404), N, ALLOWED, "404"),
    Case("moved to a failure", redirect("/moved", end=503), U, WAITS, "503"),
    Case("moved nowhere", answer(b"", 301, {}), N, ALLOWED, "redirects nowhere"),
    Case("moved to another scheme", redirect("ftp://a.example/"), N, ALLOWED, "redirects nowhere"),
    Case("moved to a private host", redirect("http://10.0.0.1/"), N, ALLOWED, "10.0.0.1"),
    Case("moved to a bad certificate", redirect("{tls}/moved"), U, WAITS, "certificate"),
    Case("refused", refused, U, WAITS),
    Case("unknown name", unknown_name, U, WAITS, "robots.invalid"),
    Case("bad certificate", bad_certificate, U, WAITS, "certificate"),
    Case("no answer", hangs, U, WAITS, "no complete response", 0.3),
    Case("a slow answer", drips, U, WAITS, "no complete response", 0.3),
    Case("cut off", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + RULES), U, WAITS),
    Case("not HTTP", raw(b"SSH-2.0-OpenSSH_9.9\r\n"), U, WAITS),
    Case("too large", answer(PADDING * (MAX_FILE // 100 + 1)), U, WAITS, "larger than 5,242,880"),
    Case("rules, then more than is read", answer(RULES + PADDING * 6_000), R, FORBIDDEN, "512,000"),
    Case("more than is read, then rules", answer(PADDING * 6_000 + RULES), R, ALLOWED, "512,000"),
    Case("byte order mark", answer(b"\xef\xbb\xbf" + RULES), R, FORBIDDEN),
    Case("half a byte order mark", answer(b"\xef\xbb" + RULES), R, FORBIDDEN),
    Case("UTF-16", answer(RULES.decode().encode("utf-16")), R, FORBIDDEN),
    Case("UTF-16 without a mark", answer(RULES.decode().encode("utf-16-le")), R, FORBIDDEN),
    Case("wrong charset", answer(b"# \xe9t\xe9\n" + RULES), R, FORBIDDEN),
    Case("unknown charset", answer(b"# \xe9\n" + RULES, headers={"Content-Type": "a; charset=no"}),
         R, FORBIDDEN),
    Case("NUL bytes", answer(b"\0\0\0" + RULES.replace(b"Dis", b"Di\0s")), R, FORBIDDEN),
    Case("a page", answer(PAGE, headers=HTML), T, ALLOWED, "HTML"),
    Case("a page that is declared as text", answer(PAGE), T, ALLOWED, "HTML"),
    Case("a page without a tag", answer(b"Not found", headers=HTML), T, ALLOWED, "HTML"),
    Case("rules that are declared as a page", answer(headers=HTML), R, FORBIDDEN),
    Case("an image", answer(b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 9), T, ALLOWED, "binary"),
    Case("compressed", answer(gzip.compress(RULES), headers={"Content-Encoding": "gzip"}),
         R, FORBIDDEN),
    Case("wrongly compressed", answer(RULES, headers={"Content-Encoding": "gzip"}), U, WAITS),
]  # fmt: skip


def fetched(origin: str, timeout: float = 10.0, allow: Any = LOOPBACK) -> Fetched:
    """Reads it with the downloader of a worker."""

    async def main() -> Fetched:
        downloader = Downloader(Settings(allow_private=allow))
        limits = SpiderSettings(timeout=timeout, max_body=MAX_FILE)

        async def transfer(url: str) -> Response:
            return await downloader.fetch(Request(url, redirects=0), limits)

        try:
            return await read(origin, transfer)
        finally:
            await downloader.close()

    return asyncio.run(main())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_an_answer_means(site: Site, case: Case) -> None:
    origin = case.serve(site) or site.url
    state = judge(RobotsState(), fetched(origin, case.timeout), NOW, "crawlframe", 60.0)
    assert state.status is case.status
    assert case.told in state.note
    if case.private == WAITS:
        assert not state.is_known(NOW)
        assert state.next_try == NOW + (2 if state.reason in SILENT else 60)
        assert state.reason
    else:
        assert state.is_known(NOW + 3600)
        allowed = Rules(origin, state.text, "crawlframe").allows(f"{origin}/private")
        assert allowed == (case.private == ALLOWED)
    assert len(state.text) <= MAX_BYTES


def test_the_table_is_complete() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:1", "http://10.0.0.1"])
def test_an_address_that_may_not_be_asked_has_no_robots_txt(origin: str) -> None:
    with pytest.raises((PrivateAddress, BadUrl)):
        fetched(origin, allow=())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 86_400),
        ({"Cache-Control": "max-age=7200"}, 7_200),
        ({"Cache-Control": "public, Max-Age=\"7200\""}, 7_200),
        ({"Cache-Control": "max-age=5"}, 3_600),
        ({"Cache-Control": "max-age=999999"}, 86_400),
        ({"Cache-Control": "no-store"}, 3_600),
        ({"Cache-Control": "no-cache, max-age=7200"}, 3_600),
        ({"Cache-Control": "s-maxage=7200"}, 86_400),
        ({"Cache-Control": "max-age=never"}, 86_400),
    ],
)  # fmt: skip
def test_how_long_it_counts(site: Site, headers: dict[str, str], seconds: float) -> None:
    site.answer(ROBOTS, RULES, 200, headers)
    state = judge(RobotsState(), fetched(site.url), NOW, "crawlframe", 60.0)
    assert state.known_until == NOW + seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("", 60), ("5", 60), ("600", 600), ("999999", 86_400), ("soon", 60),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 60), ("Wed, 21 Oct 2215 07:28:00 GMT", 86_400)],
)  # fmt: skip
def test_the_server_says_when_to_ask_again(site: Site, value: str, seconds: float) -> None:
    site.answer(ROBOTS, b"", 503, {"Retry-After": value})
    state = judge(RobotsState(), fetched(site.url), NOW, "crawlframe", 60.0)
    assert state.next_try == NOW + seconds
