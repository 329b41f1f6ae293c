"""What every downloader must do, as tests that anybody can run against their own:

    from crawlframe.testing.downloader_contract import DownloaderContract

    class TestMine(DownloaderContract):
        def make(self, concurrency):
            return MyDownloader(concurrency)

Run them with pytest. Each test starts a server on loopback that behaves badly; no other machine is
asked. They take some seconds."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from crawlframe.conf import Network
from crawlframe.errors import (
    BadResponse,
    BodyTooLarge,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchError,
    FetchTimeout,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnfit,
    ProxyUnreaching,
    TlsError,
)
from crawlframe.fetch.addresses import AddressGuard
from crawlframe.fetch.cookies import TaskCookies
from crawlframe.fetch.limits import FetchLimits
from crawlframe.fetch.names import Names
from crawlframe.fetch.plugged import Plugged
from crawlframe.fetch.redirects import Answer, Journey
from crawlframe.fetch.saving import Saving
from crawlframe.files.spool import Spool
from crawlframe.files.store import DirectoryStore
from crawlframe.plug_in import PlugInDownloader
from crawlframe.proxies.proxy import Proxy, fixed_proxy
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.testing.contract_proxy import ContractProxy
from crawlframe.testing.hostile_server import LARGE, TEXT, HostileServer

__all__ = ["DownloaderContract"]

ONE = (ipaddress.ip_network("127.0.0.1/32"),)  # the address of the server
MEGABYTE = 1 << 20
AT_ONCE = 40  # fetches
OWN = {"host", "content-length", "connection", "transfer-encoding", "expect"}  # of the transfer
# A node sends these with all requests.
ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "Contract/1"}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Opened(NamedTuple):
    """A downloader: its transfers, and what ends it."""

    transfer: Callable[[Journey], Awaitable[Answer]]
    close: Callable[[], Awaitable[None]]
    proxy_schemes: Sequence[str] = ()  # of the proxies that it can use


class DownloaderContract:
    """Override ``make``. ``names_errors`` is False for one that cannot tell a response that is no
    HTTP from a broken connection."""

    names_errors = True

    def make(self, concurrency: int) -> PlugInDownloader:
        """Returns the downloader, as its entry point does."""
        raise NotImplementedError

    def open(self, allow: tuple[Network, ...], concurrency: int) -> Opened:
        """Returns one that may connect to public addresses and those of ``allow``."""
        plug_in = self.make(concurrency)
        made = Plugged("tested", plug_in, AddressGuard(allow), Names())
        return Opened(made.transfer, made.close, getattr(plug_in, "proxy_schemes", ()))

    # -- what is sent and received ----------------------------------------------------------------

    def test_a_response_has_status_headers_and_body(self) -> None:
        with HostileServer() as server:
            got = self._fetch(f"{server.url}/")
            assert (got.status, got.body, got.url) == (201, b"hello", f"{server.url}/"), got
            assert got.headers.getall("X-TWO") == ["a", "b"], "a header may come twice"
            assert got.headers["x-odd"] == "caf\xe9", "header bytes are read as Latin-1"
            for path, body in (("/chunked", b"hello world"), ("/empty", b"")):
                assert self._fetch(f"{server.url}{path}").body == body, path
            head = self._fetch(Request(f"{server.url}/gzip", method="HEAD"))
            assert (head.status, head.body) == (200, b""), "HEAD has no body"

    def test_any_status_is_a_response(self) -> None:
        with HostileServer() as server:
            assert self._fetch(f"{server.url}/missing").status == 404
            limited = self._fetch(f"{server.url}/rate-limited")
            assert (limited.status, limited.headers["Retry-After"]) == (429, "7")
            assert server.seen["/rate-limited"] == 1, "the framework decides about another try"

    def test_the_request_is_sent_as_given(self) -> None:
        with HostileServer() as server:
            headers = {"X-A": "1", "Content-Type": "text/x"}
            body = "ä" * 3
            request = Request(f"{server.url}/echo?q=%7Ea&b", method="PUT", body=body)
            sent = json.loads(self._fetch(request, headers).body)
            assert (sent["method"], sent["target"]) == ("PUT", request.url.removeprefix(server.url))
            assert sent["body"] == body
            asked = {name.lower(): value for name, value in sent["headers"]}
            more = asked.keys() - OWN - {name.lower() for name in headers | ALWAYS}
            assert not more, f"it adds headers: {sorted(more)}"
            assert {name.lower(): value for name, value in headers.items()}.items() <= asked.items()
            bare = json.loads(self._fetch(f"{server.url}/echo").body)
            more = {name.lower() for name, _ in bare["headers"]} - OWN
            more -= {name.lower() for name in ALWAYS}
            assert not more, f"it adds headers: {sorted(more)}"

    def test_redirects_are_left_to_the_framework(self) -> None:
        with HostileServer() as server:
            stays = self._fetch(f"{server.url}/moved", follow=False)
            assert (stays.status, server.seen["/"]) == (302, 0), "it follows redirects"
            got = self._fetch(f"{server.url}/moved")
            assert got.redirects == (f"{server.url}/moved",)
            assert (got.status, server.seen["/"]) == (201, 1)

    def test_cookies_are_those_of_the_task(self) -> None:
        with HostileServer() as server:
            jar = TaskCookies()

            async def job(opened: Opened) -> list[Any]:
                await self._by(opened, f"{server.url}/cookie")
                bare = await self._by(opened, f"{server.url}/echo")
                await self._by(opened, f"{server.url}/cookie", jar=jar)
                ours = await self._by(opened, f"{server.url}/echo", jar=jar)
                return [json.loads(got.body)["headers"] for got in (bare, ours)]

            bare, ours = self._run(job)
            assert not _cookies(bare), "it keeps cookies that another request has received"
            assert _cookies(ours) == ["sid=secret"]

    def test_content_codings_are_left_to_the_framework(self) -> None:
        with HostileServer() as server:
            got = self._fetch(f"{server.url}/gzip", {"Accept-Encoding": "gzip"})
            assert got.body == TEXT, "the body must be passed as it was sent"
            error = self._refuses(BodyTooLarge, f"{server.url}/bomb", max_body=MEGABYTE)
            assert "after decompression" in error

    def test_a_body_may_be_saved(self) -> None:
        with HostileServer() as server, tempfile.TemporaryDirectory() as folder:
            store = DirectoryStore(Path(folder), "node")
            with Saving(store, Spool(store.spool), "body", limit=LARGE) as saving:
                got = self._fetch(f"{server.url}/large", saving=saving, max_body=1000)
            assert got.body == b""
            assert got.file is not None, "the body must be passed to receive as it comes"
            assert got.file.size == LARGE
            with Saving(store, Spool(store.spool), "small", limit=1000) as saving:
                self._refuses(BodyTooLarge, f"{server.url}/large", saving=saving)

    # -- limits -----------------------------------------------------------------------------------

    def test_bodies_are_cut_off_at_the_limit(self) -> None:
        with HostileServer() as server:
            for path in ("/endless", "/announced"):
                self._refuses(BodyTooLarge, f"{server.url}{path}", max_body=MEGABYTE)
                # Buffers of both sides hold some, too.
                assert server.sent[path] < 40 * MEGABYTE, f"{path} is read beyond the limit"

    def test_time_is_limited(self) -> None:
        with HostileServer() as server:
            for path in ("/drip", "/silence"):
                self._refuses(FetchTimeout, f"{server.url}{path}", timeout=0.7)

    # -- errors -----------------------------------------------------------------------------------

    def test_what_breaks_has_a_name(self) -> None:
        with HostileServer() as server:
            for path in ("/cut", "/cut-chunk", "/reset", "/nothing"):
                self._refuses(ConnectionLost, f"{server.url}{path}")
            kinds = (BadResponse,) if self.names_errors else (BadResponse, ConnectionLost)
            self._refuses(kinds, f"{server.url}/garbage")
            self._refuses(TlsError, f"{server.tls_url}/")
        self._refuses(ConnectError, f"{server.url}/")
        self._refuses(DnsError, "http://no-such-host.invalid/")

    # -- addresses --------------------------------------------------------------------------------

    def test_private_addresses_are_not_connected_to(self) -> None:
        with HostileServer() as server:
            port = server.url.rpartition(":")[2]
            for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::1]"):
                self._refuses(PrivateAddress, f"http://{host}:{port}/", allow=())
            assert server.connections == 0, "it has connected before the address was checked"
            self._refuses(PrivateAddress, f"{server.url}/elsewhere")
            assert server.connections == 1, "it follows a redirect to an address that is refused"

    def test_proxies_of_the_environment_are_not_used(self) -> None:
        before = {name: os.environ.get(name) for name in PROXIES}
        os.environ.update(dict.fromkeys(PROXIES, "http://127.0.0.1:9"))
        try:
            with HostileServer() as server:
                assert self._fetch(f"{server.url}/").status == 201
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

    # -- proxies, for one that can use those of HTTP ----------------------------------------------

    def test_it_goes_through_the_proxy_or_not_at_all(self) -> None:
        with HostileServer() as server, ContractProxy() as first, ContractProxy() as second:
            if not self._uses_proxies():
                self._refuses(ProxyUnfit, f"{server.url}/", proxy=first.proxy())
                assert (server.connections, first.uses.total()) == (0, 0), "it was sent"
                return

            async def job(opened: Opened) -> None:
                for proxy in (first, second, first):
                    got = await self._by(opened, f"{server.url}/", proxy=proxy.proxy())
                    assert (got.status, got.body) == (201, b"hello"), got
                await self._by(opened, f"{server.url}/")

            self._run(job)
            assert server.seen["/"] == 4
            assert (first.uses.total(), second.uses.total()) == (2, 1), (
                "a connection through one proxy is used for another one, or for none; or the "
                f"credentials are not sent with the first request: {first.uses}, {second.uses}"
            )
            place = server.tls_url.removeprefix("https://")
            self._refuses(TlsError, f"{server.tls_url}/", proxy=first.proxy())
            assert first.uses[f"CONNECT {place}"] == 1, "https goes through a tunnel"

    def test_failures_of_the_proxy_are_told_from_those_of_the_site(self) -> None:
        with HostileServer() as server:
            if not self._uses_proxies():
                return
            with ContractProxy() as proxy:
                for url in (server.url, server.tls_url):
                    text = self._refuses(ProxyAuth, f"{url}/", proxy=proxy.proxy("MARKED"))
                    assert "MARKED" not in text, "the credentials are shown"
                assert proxy.uses["407"] >= 2
                got = self._fetch(f"{server.url}/missing", proxy=proxy.proxy())
                assert got.status == 404, "the answer of the site is no failure of the proxy"
                gone = proxy.proxy()
            for url in (server.url, server.tls_url):
                self._refuses(ProxyFailed, f"{url}/", proxy=gone)
            with ContractProxy(silent=True) as proxy:
                lost = (ProxyFailed, ConnectionLost)  # some clients cannot tell whose it was
                self._refuses(lost, f"{server.tls_url}/", proxy=proxy.proxy())
            with ContractProxy(refusal=403) as proxy:
                self._refuses(ProxyUnreaching, f"{server.tls_url}/", proxy=proxy.proxy())
            assert server.connections == 1, "it has gone around the proxy"

    def test_a_proxy_is_not_asked_for_private_addresses(self) -> None:
        with HostileServer() as server, ContractProxy() as proxy:
            if not self._uses_proxies():
                return
            self._refuses(PrivateAddress, f"{server.url}/", allow=(), proxy=proxy.proxy())
            own = fixed_proxy(proxy.proxy().url)  # named by a spider: it may not be there either
            kinds = (PrivateAddress, ProxyUnfit)
            self._refuses(kinds, "http://192.0.43.10/", allow=(), proxy=own)
            assert proxy.uses.total() == 0

    # -- many, and given up -----------------------------------------------------------------------

    def test_many_at_once(self) -> None:
        with HostileServer() as server:

            async def job(opened: Opened) -> list[Response]:
                fetches = (self._by(opened, f"{server.url}/echo?{n}") for n in range(AT_ONCE))
                return [*await asyncio.gather(*fetches)]

            targets = [json.loads(got.body)["target"] for got in self._run(job)]
            assert targets == [f"/echo?{n}" for n in range(AT_ONCE)], "responses are mixed up"

    def test_it_can_be_used_after_cancelled_fetches(self) -> None:
        with HostileServer() as server:

            async def job(opened: Opened) -> Response:
                for path in ("/silence", "/drip", "/endless") * 3:
                    fetch = asyncio.ensure_future(
                        self._by(opened, f"{server.url}{path}", max_body=1 << 34)
                    )
                    await asyncio.sleep(0.05)
                    fetch.cancel()
                    with suppress(asyncio.CancelledError):
                        await fetch
                return await self._by(opened, f"{server.url}/")

            assert self._run(job).status == 201

    # -- how ---------------------------------------------------------------------------------------

    def _uses_proxies(self) -> bool:
        async def job(opened: Opened) -> bool:
            return "http" in opened.proxy_schemes

        uses: bool = self._run(job)
        return uses

    def _run(
        self, job: Callable[[Opened], Awaitable[Any]], allow: tuple[Network, ...] = ONE
    ) -> Any:
        async def main() -> Any:
            opened = self.open(allow, AT_ONCE)
            try:
                async with asyncio.timeout(60):
                    return await job(opened)
            finally:
                await opened.close()

        return asyncio.run(main())

    async def _by(
        self,
        opened: Opened,
        request: Request | str,
        headers: dict[str, str] | None = None,
        jar: TaskCookies | None = None,
        saving: Saving | None = None,
        proxy: Proxy | None = None,
        **limits: Any,
    ) -> Response:
        asked = Request(request) if isinstance(request, str) else request
        caps = FetchLimits(**{"timeout": 20.0, **limits})
        sent = ALWAYS | (headers or {})
        journey = Journey(asked, caps, sent, jar, saving=saving, proxy=proxy)
        return await journey.run(opened.transfer)

    def _fetch(
        self,
        request: Request | str,
        headers: dict[str, str] | None = None,
        allow: tuple[Network, ...] = ONE,
        **more: Any,
    ) -> Response:
        async def job(opened: Opened) -> Response:
            return await self._by(opened, request, headers, **more)

        response: Response = self._run(job, allow)
        return response

    def _refuses(
        self, kinds: type[FetchError] | tuple[type[FetchError], ...], url: str, **more: Any
    ) -> str:
        """The message of the error with which the fetch must end."""
        try:
            found: Response | FetchError = self._fetch(url, **more)
        except FetchError as error:
            found = error
        assert isinstance(found, kinds), f"{url}: {found!r} in place of {kinds}"
        return str(found)


def _cookies(headers: list[list[str]]) -> list[str]:
    return [value for name, value in headers if name.lower() == "cookie"]
