"""Fetches through real proxies: with both downloaders, over HTTP, CONNECT and SOCKS5."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import Any

import pycurl
import pytest
import uvloop

from crawlframe.base.secret import Secret
from crawlframe.conf import Settings
from crawlframe.errors import (
    FetchError,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnfit,
    ProxyUnreaching,
)
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext, SendTime
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings
from tests.proxy_server import Start, of_pool, start

from .conftest import CERTIFICATE, Site, listening, tls_context

__all__ = ("start",)

SECRET = "p:a ss@word"  # as awkward in URLs as can be
LOGINS = ["", f"me:{SECRET}", "\u00fcser\u4f60:p\u00e4ss\u4f60"]
ALLOWED = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


def fetch(
    request: Request | str,
    via: ChosenProxy | None,
    kind: str = "curl",
    *,
    allow: tuple[Any, ...] = ALLOWED,
    times: int = 1,
    **settings: Any,
) -> Response:
    asked = Request(request) if isinstance(request, str) else request

    async def main() -> Response:
        downloader = Downloader(Settings(allow_private=allow, user_agent="Node/1"))
        own = SpiderSettings(downloader=kind, timeout=5, **settings)
        try:
            for _ in range(times):
                response = await downloader.fetch(asked, own, FetchContext(proxy=via))
            return response
        finally:
            await downloader.close()

    response: Response = uvloop.run(main())
    return response


KINDS = pytest.mark.parametrize("kind", ["curl", "requests"])


@KINDS
@pytest.mark.parametrize("login", LOGINS)
def test_a_plain_page(site: Site, start: Start, kind: str, login: str) -> None:
    site.answer("/a", b"page")
    proxy = start(login=login)
    response = fetch(f"{site.url}/a?q=1", of_pool(proxy), kind)
    assert response.body == b"page"
    assert proxy.uses == {f"{site.url}/a?q=1": 1}
    assert not [name for name, _ in site.seen[0].headers if name.lower().startswith("proxy-")]


@KINDS
@pytest.mark.parametrize("login", LOGINS)
def test_tls_goes_through_a_tunnel(
    site: Site, start: Start, kind: str, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    site.answer("/a", b"page", headers={"X-Site": "yes"})
    proxy = start(login=login)
    response = fetch(f"{site.tls_url}/a", of_pool(proxy), kind)
    assert response.body == b"page"
    assert response.headers["X-Site"] == "yes"
    assert proxy.uses == {site.tls_url.removeprefix("https://"): 1}


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_socks(site: Site, start: Start, scheme: str, login: str) -> None:
    site.answer("/a", b"page")
    proxy = start("socks5", login)
    url = site.url.replace("127.0.0.1", "site.localhost")
    assert fetch(f"{url}/a", of_pool(proxy, scheme)).body == b"page"
    assert proxy.names == (["site.localhost"] if scheme == "socks5h" else [])


def test_connections_are_kept_for_each_proxy(site: Site, start: Start) -> None:
    site.answer("/a", b"page")
    first, second = start(), start()
    fetch(f"{site.url}/a", of_pool(first), times=5)
    fetch(f"{site.url}/a", of_pool(second), times=5)
    assert (first.connections, second.connections) == (1, 1)


def test_wrong_credentials_of_socks(site: Site, start: Start) -> None:
    proxy = start("socks5", f"me:{SECRET}")
    with pytest.raises(ProxyAuth):
        fetch(f"{site.url}/a", of_pool(proxy, password="wrong"))


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_socks_proxy_that_cannot_reach_the_host(start: Start) -> None:
    proxy = start("socks5")
    with pytest.raises(ProxyUnreaching):
        fetch(f"http://127.0.0.1:{closed_port()}/", of_pool(proxy))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_dies(site: Site, start: Start, scheme: str) -> None:
    url = site.url if scheme == "http" else site.tls_url
    proxy = start(dead=True)
    with pytest.raises(FetchError):
        fetch(f"{url}/a", of_pool(proxy))


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [("curl", "http"), ("curl", "socks5"), ("curl", "socks5h"), ("requests", "http")],
)
@pytest.mark.parametrize("host", ["site.localhost", "[::1]", "2130706433"])
def test_private_addresses_are_refused_behind_a_proxy(
    start: Start, kind: str, scheme: str, host: str
) -> None:
    proxy = start(scheme.removesuffix("h"))
    with pytest.raises(PrivateAddress):
        fetch(f"http://{host}:8080/", of_pool(proxy, scheme), kind, allow=())
    assert proxy.uses == {}


def test_a_spider_may_name_its_proxy(site: Site, start: Start) -> None:
    site.answer("/a", b"page")
    proxy = start()
    assert fetch(f"{site.url}/a", None, proxy=proxy.url).body == b"page"
    assert proxy.uses
    fetch(Request(f"{site.url}/a", proxy=None), None, proxy=proxy.url)
    assert sum(proxy.uses.values()) == 1
    fetch(Request(f"{site.url}/a", proxy=proxy.url), None)
    assert sum(proxy.uses.values()) == 2


def test_what_wants_the_pool_is_never_sent_without(site: Site) -> None:
    with pytest.raises(ProxyFailed, match="no proxy for 'pool:eu'"):
        fetch(f"{site.url}/a", None, proxy="pool:eu")
    with pytest.raises(ProxyFailed):
        fetch(Request(f"{site.url}/a", proxy="pool"), None)
    assert site.seen == []


def test_the_requests_downloader_refuses_socks(site: Site, start: Start) -> None:
    with pytest.raises(ProxyUnfit, match="curl"):
        fetch(f"{site.url}/a", of_pool(start("socks5")), "requests")


@KINDS
def test_proxies_of_the_environment_are_ignored(
    site: Site, start: Start, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("no_proxy", "*")
    site.answer("/a", b"page")
    proxy = start()
    fetch(f"{site.url}/a", of_pool(proxy), kind)
    assert proxy.uses
    fetch(f"{site.url}/a", None, kind)
    assert sum(proxy.uses.values()) == 1


def test_a_target_with_odd_escapes_stays_as_it_is(site: Site, start: Start) -> None:
    site.answer("/a%2fb", b"page")
    proxy = start()
    assert fetch(f"{site.url}/a%2fb", of_pool(proxy)).body == b"page"


def test_a_post_goes_through(site: Site, start: Start) -> None:
    site.answer("/a", b"page")
    fetch(Request(f"{site.url}/a", body=b"x=1", method="POST"), of_pool(start()))
    assert site.seen[0].body == b"x=1"


def test_its_text_shows_no_credentials() -> None:
    proxy = ChosenProxy(7, "http", "p.example", 3128, "account", Secret(SECRET))
    for text in (repr(proxy), str(proxy), f"{proxy}", format(proxy)):
        assert "account" not in text
        assert SECRET not in text
        assert "p.example:3128" in text


# -- https proxies ---------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("tls", [False, True])
def test_tls_to_the_proxy_itself(
    site: Site, start: Start, kind: str, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    context = tls_context()
    site.answer("/a", b"page")
    proxy = start(login=f"me:{SECRET}", tls=context)
    url = site.tls_url if tls else site.url
    assert fetch(f"{url}/a", of_pool(proxy, "https"), kind).body == b"page"
    assert len(proxy.uses) == 1


@KINDS
def test_a_proxy_whose_certificate_is_not_trusted_gets_nothing(
    site: Site, start: Start, kind: str
) -> None:
    context = tls_context()
    proxy = start(login=f"me:{SECRET}", tls=context)
    with pytest.raises(FetchError):
        fetch(f"{site.url}/a", of_pool(proxy, "https"), kind)
    assert (proxy.uses, site.seen) == ({}, [])


# -- found by spiders, and when a request is sent --------------------------------------------------


@KINDS
def test_a_proxy_that_a_page_has_named_may_not_be_at_a_private_address(
    site: Site, start: Start, kind: str
) -> None:
    proxy = start()
    found = of_pool(proxy)._replace(found=True)
    kinds = ProxyFailed if kind == "curl" else ProxyUnfit
    with pytest.raises(kinds):
        fetch("http://93.184.215.14/", found, kind, allow=())
    assert proxy.connections == 0


@KINDS
@pytest.mark.parametrize("tls", [False, True])
def test_a_request_counts_as_sent_when_its_way_is_ready(
    site: Site, start: Start, kind: str, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    site.answer("/a", b"page")
    proxy = start()
    ready: list[bool] = []

    def sent() -> None:
        # A tunnel has been asked for; without one, the connection to the proxy is there.
        ready.append(bool(proxy.uses) if tls else proxy.connections > 0)

    async def main() -> None:
        downloader = Downloader(Settings(allow_private=ALLOWED, user_agent="Node/1"))
        own = SpiderSettings(downloader=kind, timeout=5)
        url = f"{site.tls_url if tls else site.url}/a"
        try:
            time = SendTime(report=sent)
            await downloader.fetch(
                Request(url), own, FetchContext(proxy=of_pool(proxy), send_time=time)
            )
        finally:
            await downloader.close()

    uvloop.run(main())
    assert ready == [True] if tls else len(ready) == 1


# -- HTTP/2 ----------------------------------------------------------------------------------------


def _speak_http2(connection: ssl.SSLSocket) -> None:
    """Answers each request of a connection with "ok" (RFC 9113, RFC 7541)."""
    file = connection.makefile("rb")
    assert file.read(24).startswith(b"PRI * HTTP/2.0")
    connection.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")  # SETTINGS
    while head := file.read(9):
        file.read(int.from_bytes(head[:3], "big"))
        if head[3] == 1:  # HEADERS; the answer is :status 200 and DATA
            stream = head[5:]
            connection.sendall(b"\x00\x00\x01\x01\x04" + stream + b"\x88")
            connection.sendall(b"\x00\x00\x02\x00\x01" + stream + b"ok")


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_requests_share_an_http2_connection_through_a_proxy(
    start: Start, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pycurl.version_info()[4] & pycurl.VERSION_HTTP2:
        pytest.skip("this libcurl speaks no HTTP/2")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    proxy = start(scheme, login=f"me:{SECRET}")
    with listening(_speak_http2, tls_context("h2")) as port:
        url = f"https://127.0.0.1:{port}/"
        response = fetch(url, of_pool(proxy), times=3)
    assert (response.status, response.body) == (200, b"ok")
    assert proxy.uses == {url.removeprefix("https://").strip("/"): 1}
