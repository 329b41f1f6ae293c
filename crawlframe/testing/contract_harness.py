"""ContractHarness: a downloader that is opened and fetches, for the tests of the contract."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from crawlframe.conf import Network
from crawlframe.errors import FetchError
from crawlframe.fetch.body.saving import Saving
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.journey.limits import FetchLimits
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names
from crawlframe.fetch.plugin.downloader import Plugged
from crawlframe.plug_in import PlugInDownloader
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.request import Request
from crawlframe.response.response import Response

ONE = (ipaddress.ip_network("127.0.0.1/32"),)  # the address of the server
AT_ONCE = 40  # fetches
# A node sends these with all requests.
ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "Contract/1"}


class Opened(NamedTuple):
    """A downloader: its transfers, and what ends it."""

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
        """Returns one that may connect to public addresses and those of ``allow``."""
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
