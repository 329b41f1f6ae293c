"""What every downloader must do about proxies: go through them, or send nothing."""

from __future__ import annotations

from crawlframe.errors import (
    ConnectionLost,
    PrivateAddress,
    ProxyAuth,
    ProxyFailed,
    ProxyUnfit,
    ProxyUnreaching,
    TlsError,
)
from crawlframe.proxies.proxy import fixed_proxy
from crawlframe.testing.contract_harness import ContractHarness, Opened
from crawlframe.testing.contract_proxy import ContractProxy
from crawlframe.testing.hostile_server import HostileServer


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
