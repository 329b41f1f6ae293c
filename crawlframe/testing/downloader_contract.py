"""The contract of downloaders, as tests for your own downloader:

    from crawlframe.testing.downloader_contract import DownloaderContract

    class TestMine(DownloaderContract):
        def make(self, concurrency):
            return MyDownloader(concurrency)

Run them with pytest. Each test starts a server on loopback that behaves badly; no other machine is
asked. They take some seconds."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from crawlframe.errors import (
    BadResponse,
    BodyTooLarge,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchTimeout,
    PrivateAddress,
    TlsError,
)
from crawlframe.fetch.body.saving import Saving
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.files.spool import Spool
from crawlframe.files.store import DirectoryStore
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.testing.hostile_server import LARGE_BODY, TEXT, HostileServer
from crawlframe.testing.proxy_contract import ALWAYS, AT_ONCE, Opened, ProxyContract

__all__ = ["DownloaderContract", "Opened"]

MEGABYTE = 1 << 20
OWN = {"host", "content-length", "connection", "transfer-encoding", "expect"}  # of the transfer
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class DownloaderContract(ProxyContract):
    """Override ``make``. ``names_errors`` is False for one that cannot tell a response that is no
    HTTP from a broken connection."""

    # -- requests and responses -------------------------------------------------------------------

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
            with Saving(store, Spool(store.spool), "body", limit=LARGE_BODY) as saving:
                got = self._fetch(f"{server.url}/large", saving=saving, max_body=1000)
            assert got.body == b""
            assert got.file is not None, "the body must be passed to receive as it comes"
            assert got.file.size == LARGE_BODY
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


def _cookies(headers: list[list[str]]) -> list[str]:
    return [value for name, value in headers if name.lower() == "cookie"]
