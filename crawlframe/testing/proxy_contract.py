"""The contract of downloaders about proxies: go through them, or send nothing.

An HTTP proxy on loopback with credentials, which may be dead or refuse, for tests of
downloaders."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, NamedTuple

from crawlframe.base.secret import Secret
from crawlframe.conf import Network
from crawlframe.errors import (
    ConnectionLost,
    FetchError,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnfit,
    ProxyUnreaching,
    TlsError,
)
from crawlframe.fetch.body.saving import Saving
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names
from crawlframe.fetch.plugin.downloader import Plugged
from crawlframe.plug_in import PlugInDownloader
from crawlframe.proxies.proxy import ChosenProxy, fixed_proxy
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.testing.hostile_server import HostileServer

ONE = (ipaddress.ip_network("127.0.0.1/32"),)  # the address of the server
AT_ONCE = 40  # fetches
# A node sends these with all requests.
ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "Contract/1"}
USER, PASSWORD = "ann", "p@ss:w/rd %41"


class Opened(NamedTuple):
    """A downloader: its transfers, and the function that closes it."""

    transfer: Callable[[Journey], Awaitable[Answer]]
    close: Callable[[], Awaitable[None]]
    proxy_schemes: Sequence[str] = ()  # of the proxies that it can use


class ContractHarness:
    """``names_errors`` is False for one that cannot tell a response that is no HTTP from a broken
    connection."""

    names_errors = True

    def make(self, concurrency: int) -> PlugInDownloader:
        """Returns the downloader, as its entry point does."""
        raise NotImplementedError

    def open(self, allow: tuple[Network, ...], concurrency: int) -> Opened:
        """Returns a downloader that may connect to public addresses and to ``allow``."""
        plug_in = self.make(concurrency)
        made = Plugged("tested", plug_in, AddressGuard(allow), Names())
        return Opened(made.transfer, made.close, getattr(plug_in, "proxy_schemes", ()))

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
        proxy: ChosenProxy | None = None,
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


class ProxyContract(ContractHarness):
    """The part of DownloaderContract that concerns proxies of HTTP."""

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

    def _uses_proxies(self) -> bool:
        async def job(opened: Opened) -> bool:
            return "http" in opened.proxy_schemes

        uses: bool = self._run(job)
        return uses


class ContractProxy(ThreadingTCPServer):
    """Use it as a context manager. ``uses`` counts requests: ``CONNECT host:port`` and ``GET
    http://…``; requests without the right credentials are counted as ``407``. ``refusal``: the
    status of its answers to CONNECT. ``silent``: it closes each connection at once."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, refusal: int = 0, silent: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.uses: Counter[str] = Counter()
        self.refusal = refusal
        self.silent = silent
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> ContractProxy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join(30)

    def proxy(self, password: str = PASSWORD) -> ChosenProxy:
        """This proxy, as entered by an operator."""
        return ChosenProxy(1, "http", "127.0.0.1", self.server_address[1], USER, Secret(password))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that disconnect are no error."""


class _Handler(StreamRequestHandler):
    server: ContractProxy

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            while not self.server.silent and self._serve():
                pass

    def _serve(self) -> bool:
        """Answers a request. Returns whether another may follow."""
        lines = []
        while line := self.rfile.readline().rstrip(b"\r\n"):
            lines.append(line)
        if not lines:
            return False
        method, target, _ = lines[0].decode("latin-1").split(" ")
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        wanted = f"proxy-authorization: basic {login}".lower()
        if not any(line.decode("latin-1").lower() == wanted for line in lines):
            self.server.uses["407"] += 1
            self._say(407, b'Proxy-Authenticate: Basic realm="contract"\r\n')
            return True
        self.server.uses[f"{method} {target}"] += 1
        if method == "CONNECT":
            if self.server.refusal:
                self._say(self.server.refusal)
                return False
            self._relay(_place(target))
            return False
        place, _, path = target.removeprefix("http://").partition("/")
        kept = [line for line in lines[1:] if not line.lower().startswith(b"proxy-")]
        first = f"{method} /{path} HTTP/1.1".encode("latin-1")
        self._forward(_place(place), b"\r\n".join([first, *kept, b"", b""]))
        return True

    def _forward(self, place: tuple[str, int], request: bytes) -> None:
        """A request without a body, and a response with a length."""
        try:
            there = socket.create_connection(place, 10)
        except OSError:
            self._say(502)
            return
        with there, there.makefile("rb") as answer:
            there.sendall(request)
            length = 0
            while line := answer.readline():
                self.wfile.write(line)
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
                if line == b"\r\n":
                    break
            self.wfile.write(answer.read(length))

    def _say(self, status: int, more: bytes = b"") -> None:
        self.wfile.write(b"HTTP/1.1 %d No\r\n%sContent-Length: 0\r\n\r\n" % (status, more))

    def _relay(self, place: tuple[str, int]) -> None:
        try:
            there = socket.create_connection(place, 10)
        except OSError:
            self._say(502)
            return
        with there:
            there.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=_copy, args=(there, self.connection), daemon=True)
            back.start()
            _copy(self.connection, there)
            back.join(10)


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
