"""Plugged: a plug-in downloader in a worker, with the framework's checks around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from io import BytesIO

from multidict import CIMultiDict

from crawlframe.base.urls import hostname_of
from crawlframe.errors import (
    DnsError,
    DownloaderFailed,
    FetchError,
    PrivateAddress,
    ProxyFailed,
    ProxyUnfit,
)
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.journey.proxied import check_answer, check_target
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names, Unresolved
from crawlframe.plug_in import PlugInDownloader, Reply
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.downloader_names import misfit, plug_ins

LINGER_SECONDS = 1.0  # seconds that a cancelled fetch may take to end


def load(name: str, concurrency: int) -> PlugInDownloader:
    """Makes the downloader of an installed package. Raises DownloaderFailed."""
    if problem := misfit(name):
        raise DownloaderFailed(problem)
    entry = plug_ins()[name]
    try:
        made: PlugInDownloader = entry.load()(concurrency)
    except Exception as error:  # any package's code
        raise DownloaderFailed(
            f"downloader {name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return made


class Plugged:
    """Transfers of one plug-in downloader."""

    def __init__(
        self, name: str, downloader: PlugInDownloader, guard: AddressGuard, names: Names
    ) -> None:
        self._name = name
        self._downloader = downloader
        self._guard = guard
        self._names = names

    async def transfer(self, journey: Journey) -> Answer:
        """One transfer of a journey. Raises FetchError."""
        if journey.proxy is not None:
            self._check_proxy(journey, journey.proxy)
            await check_target(journey.url, journey.where, self._names, self._guard)
        await journey.wait_to_send()
        journey.remaining()
        transfer = PluggedTransfer(journey, self._guard, self._names)
        running = asyncio.ensure_future(self._fetch(transfer))
        try:
            await journey.wait_for(running)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running], timeout=LINGER_SECONDS)
        answer = running.result()
        if journey.proxy is not None:
            check_answer(answer, journey)
            return answer._replace(address="")  # the address of the proxy
        return answer

    def _check_proxy(self, journey: Journey, proxy: ChosenProxy) -> None:
        """Raises ProxyUnfit: a transfer that needs a proxy is never sent without."""
        schemes = getattr(self._downloader, "proxy_schemes", ())
        if proxy.scheme not in schemes:
            usable = f"only proxies with {', '.join(schemes)}" if schemes else "no proxies"
            raise ProxyUnfit(
                f"{journey.where}: the downloader {self._name} uses {usable}, not {proxy.url}; use "
                'the downloader curl, or set proxy to None ("direct") for this request'
            )

    async def close(self) -> None:
        await self._downloader.close()

    async def _fetch(self, transfer: PluggedTransfer) -> Answer:
        try:
            reply = await self._downloader.fetch(transfer)
        except FetchError:
            raise
        except Exception as error:  # any package's code
            raise self._failed(transfer, f"{type(error).__name__}: {error}") from error
        if not transfer.received or not isinstance(reply, Reply):
            raise self._failed(transfer, "fetch must return what transfer.receive returns")
        return Answer(*reply)

    def _failed(self, transfer: PluggedTransfer, why: str) -> DownloaderFailed:
        return DownloaderFailed(f"{transfer.where}: downloader {self._name}: {why}")


class PluggedTransfer:
    """A Transfer, as a plug-in sees one of a journey."""

    def __init__(self, journey: Journey, guard: AddressGuard, names: Names) -> None:
        self.url = journey.url
        self.method = journey.method
        self.headers: Sequence[tuple[str, str]] = journey.headers_to_send()
        self.body = journey.body
        self.proxy = journey.proxy.full_url if journey.proxy is not None else None
        self.connect = journey.limits.connect
        self.stall = journey.limits.stall
        self.where = journey.where
        self.received = False
        self._is_sent = False
        self._journey = journey
        self._guard = guard
        self._names = names

    async def addresses(self) -> Sequence[str]:
        proxy = self._journey.proxy
        if proxy is not None and proxy.resolves:
            return ()
        try:
            known = await self._names.resolve(hostname_of(self.url), self._seconds())
        except Unresolved as error:
            raise DnsError(f"{self.where}: {error}") from None
        return self._guard.allowed(known.addresses, self.where)

    async def proxy_addresses(self) -> Sequence[str]:
        proxy = self._journey.proxy
        if proxy is None:
            return ()
        try:
            known = await self._names.resolve(proxy.host, self._seconds())
        except Unresolved as error:
            raise ProxyFailed(f"proxy {proxy.url}: {error}") from None
        if proxy.trusted:
            return known.addresses
        try:
            return self._guard.allowed(known.addresses, self.where)
        except PrivateAddress:
            if not proxy.of_pool:
                raise
            raise ProxyFailed(
                f"{self.where}: proxy {proxy.url} is at {known.addresses[0]}, which is not a "
                "public address"
            ) from None

    def _seconds(self) -> float:
        return max(0.001, min(self.connect, self._journey.left()))

    def sent(self) -> None:
        self._is_sent = True
        self._journey.send_time.sent()

    async def receive(
        self,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        chunks: AsyncIterable[bytes],
        address: str = "",
    ) -> Reply:
        if address and self._journey.proxy is None and not self._guard.allows(address):
            raise PrivateAddress.of(address, self.where)
        if not self._is_sent:  # it cannot have arrived later
            self.sent()
        fields: CIMultiDict[str] = CIMultiDict(headers)
        self.received = True
        journey, saving, limit = self._journey, self._journey.saving, self._journey.limits.max_body
        if saving is not None and saving.begin(status, fields):
            async for chunk in chunks:
                saving.write(chunk)
            return Reply(status, fields, b"", address)
        length = fields.get("Content-Length", "")
        if self.method != "HEAD" and length.isdecimal() and int(length) > limit:
            return Reply(status, fields, None, address)
        body = BytesIO()
        async for chunk in chunks:
            if body.tell() + len(chunk) > limit:
                return Reply(status, fields, None, address)
            await journey.account.reserve(len(chunk))
            body.write(chunk)
        return Reply(status, fields, body.getvalue(), address)
