"""The contract of downloaders, as authors of plug-ins run it: our own pass, and bad ones do not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from importlib.metadata import EntryPoint
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop
from multidict import CIMultiDict

from crawlframe.conf import Network, Settings
from crawlframe.errors import (
    ArgumentError,
    BadRequest,
    BadResponse,
    ConnectError,
    ConnectionLost,
    DownloaderFailed,
    FetchError,
    MissingCode,
    ProxyUnfit,
    SpiderError,
    TlsError,
)
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext, SendTime
from crawlframe.fetch.names.resolver import Names
from crawlframe.fetch.requests.downloader import RequestsDownloader
from crawlframe.plug_in import Reply, Transfer
from crawlframe.request import downloader_names as downloaders
from crawlframe.request.downloader_names import misfit
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.spider.task_settings import overridden
from crawlframe.testing.downloader_contract import DownloaderContract, Opened

from .conftest import LOOPBACK, Site


class TestCurl(DownloaderContract):
    def open(self, allow: tuple[Network, ...], concurrency: int) -> Opened:
        made = CurlDownloader(allow, concurrency, names=Names())
        return Opened(made.transfer, made.close, ("http", "https", "socks5", "socks5h"))


class TestRequests(DownloaderContract):
    def open(self, allow: tuple[Network, ...], concurrency: int) -> Opened:
        made = RequestsDownloader(allow, concurrency, Names())
        return Opened(made.transfer, made.close, ("http", "https"))


class Simple:
    """A plug-in that is as small as one can be, without keep-alive."""

    def __init__(self, concurrency: int) -> None:
        self.closed = False

    async def fetch(self, transfer: Transfer) -> Reply:
        (address, *_) = await transfer.addresses()
        return await self.ask(transfer, address)

    async def ask(self, transfer: Transfer, address: str) -> Reply:
        parts = urlsplit(transfer.url)
        context = ssl.create_default_context() if parts.scheme == "https" else None
        name = parts.hostname if context else None
        try:
            async with asyncio.timeout(transfer.connect):
                reader, writer = await asyncio.open_connection(
                    address, parts.port, ssl=context, server_hostname=name
                )
        except ssl.SSLError as error:
            raise TlsError(f"{transfer.where}: {error}") from None
        except OSError as error:
            raise ConnectError(f"{transfer.where}: {error}") from None
        try:
            self._send(transfer, writer, parts.netloc)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            if not first.startswith("HTTP/"):
                raise BadResponse(f"{transfer.where}: {first!r} is no status line")
            headers = [
                (name, value.strip()) for name, _, value in (n.partition(":") for n in lines)
            ]
            status = int(first.split()[1])
            chunks = _chunks(reader, transfer.method, status, CIMultiDict(headers))
            return await transfer.receive(status, headers, chunks, address)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ConnectionLost(f"{transfer.where}: {error}") from None
        finally:
            writer.transport.abort()

    def _send(self, transfer: Transfer, writer: asyncio.StreamWriter, host: str) -> None:
        target = "/" + transfer.url.split("/", 3)[3]
        lines = [f"{transfer.method} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in transfer.headers]
        if transfer.body is not None:
            lines.append(f"Content-Length: {len(transfer.body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (transfer.body or b""))

    async def close(self) -> None:
        self.closed = True


async def _chunks(
    reader: asyncio.StreamReader, method: str, status: int, headers: CIMultiDict[str]
) -> AsyncIterator[bytes]:
    if method == "HEAD" or status in (204, 304):
        return
    if "Transfer-Encoding" in headers:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        return
    left = int(headers["Content-Length"])
    while left:
        chunk = await reader.read(min(left, 1 << 16))
        if not chunk:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(chunk)
        yield chunk


class TestSimple(DownloaderContract):
    def make(self, concurrency: int) -> Simple:
        return Simple(concurrency)


class Careless(Simple):
    """Connects without asking whether it may."""

    async def fetch(self, transfer: Transfer) -> Reply:
        return await self.ask(transfer, str(urlsplit(transfer.url).hostname))


def test_a_bad_one_fails() -> None:
    class Bad(DownloaderContract):
        def make(self, concurrency: int) -> Simple:
            return Careless(concurrency)

    with pytest.raises(AssertionError, match="in place of"):
        Bad().test_private_addresses_are_not_connected_to()


# -- names -----------------------------------------------------------------------------------------

Install = Callable[[str, str], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes an entry point: ``install("simple", "module:factory")``."""

    def add(name: str, value: str) -> None:
        entry = EntryPoint(name, value, downloaders.GROUP)
        monkeypatch.setattr(downloaders, "plug_ins", lambda: {name: entry})
        monkeypatch.setattr("crawlframe.fetch.plugin.downloader.plug_ins", lambda: {name: entry})

    return add


def fetch(request: Request, settings: SpiderSettings | None = None) -> Response:
    async def main() -> Response:
        downloader = Downloader(Settings(allow_private=LOOPBACK))
        try:
            return await downloader.fetch(request, settings or SpiderSettings())
        finally:
            await downloader.close()

    response: Response = uvloop.run(main())
    return response


@pytest.mark.parametrize("place", ["request", "settings"])
def test_a_plug_in_is_used_by_its_name(site: Site, install: Install, place: str) -> None:
    install("simple", f"{__name__}:Simple")
    site.answer("/", b"here")
    chosen = {"downloader": "simple"}
    request = Request(f"{site.url}/", **chosen if place == "request" else {})  # type: ignore[arg-type]
    settings = SpiderSettings(downloader="simple") if place == "settings" else None
    assert fetch(request, settings).body == b"here"
    assert Request.decode(request.encode()).downloader == request.downloader


def test_unknown_names_are_refused_with_the_known_ones(install: Install) -> None:
    install("simple", f"{__name__}:Simple")
    known = "downloader must be one of curl, requests, browser, simple, not 'simpel' (did you mean"
    assert misfit("simpel").startswith(known)

    class Shop(Spider):
        name = "shop"
        settings = {"downloader": "simpel"}

    for refuses, kind in (
        (lambda: Request("http://a/", downloader="simpel"), BadRequest),
        (lambda: read_settings(Shop), SpiderError),
        (lambda: overridden(SpiderSettings(), {"downloader": "simpel"}), ArgumentError),
    ):
        with pytest.raises(kind, match="one of curl, requests, browser, simple"):
            refuses()
    assert overridden(SpiderSettings(), {"downloader": "simple"}).downloader == "simple"


def test_a_node_without_the_plug_in_leaves_its_requests_to_others(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("simple", f"{__name__}:Simple")
    record = Request("http://a/", downloader="simple").encode()
    monkeypatch.setattr(downloaders, "plug_ins", dict)
    with pytest.raises(MissingCode, match="one of curl, requests, browser, not 'simple'"):
        Request.decode(record)


def test_a_package_cannot_take_the_name_of_a_built_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(name, "os:path", downloaders.GROUP) for name in ("curl", "mine")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    downloaders.plug_ins.cache_clear()
    try:
        assert downloaders.known() == ["curl", "requests", "browser", "mine"]
    finally:
        downloaders.plug_ins.cache_clear()


class Raising(Simple):
    async def fetch(self, transfer: Transfer) -> Reply:
        raise KeyError("a bug")


class Silent(Simple):
    async def fetch(self, transfer: Transfer) -> Any:
        return None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Simple", "cannot be loaded: ModuleNotFoundError"),
        (f"{__name__}:Raising", "downloader bad: KeyError: 'a bug'"),
        (f"{__name__}:Silent", "fetch must return what transfer.receive returns"),
    ],
)
def test_what_a_plug_in_does_wrong_is_an_error_of_the_request(
    site: Site, install: Install, value: str, message: str
) -> None:
    install("bad", value)
    with pytest.raises(DownloaderFailed) as caught:
        fetch(Request(f"{site.url}/", downloader="bad"))
    assert message in str(caught.value)
    assert isinstance(caught.value, FetchError)
    assert (caught.value.reason, caught.value.retryable) == ("downloader", False)


class Marking(Simple):
    """Says when the request goes out."""

    def _send(self, transfer: Transfer, writer: asyncio.StreamWriter, host: str) -> None:
        transfer.sent()
        super()._send(transfer, writer, host)


@pytest.mark.parametrize(("kind", "before"), [("Marking", 0), ("Simple", 1)])
def test_the_delay_counts_from_what_a_plug_in_says_or_else_from_the_response(
    site: Site, install: Install, kind: str, before: int
) -> None:
    """``before``: requests that the site has answered by then."""
    install("simple", f"{__name__}:{kind}")
    site.answer("/", b"here")
    seen: list[int] = []

    async def main() -> None:
        downloader = Downloader(Settings(allow_private=LOOPBACK))
        time = SendTime(report=lambda: seen.append(len(site.seen)))
        try:
            asked = Request(f"{site.url}/", downloader="simple")
            await downloader.fetch(asked, SpiderSettings(), FetchContext(send_time=time))
        finally:
            await downloader.close()

    uvloop.run(main())
    assert seen == [before]


def test_one_that_uses_no_proxies_sends_nothing(site: Site, install: Install) -> None:
    install("simple", f"{__name__}:Simple")
    request = Request(f"{site.url}/", downloader="simple", proxy="http://127.0.0.1:9")
    with pytest.raises(ProxyUnfit, match="use the downloader curl") as caught:
        fetch(request)
    assert site.seen == []
    assert not caught.value.retryable
