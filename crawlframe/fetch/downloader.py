"""Downloader: fetches a spider's request with the client that the request names."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.decoding import ACCEPTED
from crawlframe.base.urls import host_of, hostname_of
from crawlframe.conf import Settings
from crawlframe.errors import BadHeader, ProxyFailed, TlsError
from crawlframe.fetch.body.memory import TransferMemory
from crawlframe.fetch.body.pictures import PictureStore
from crawlframe.fetch.body.saving import FileSaver
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext, FetchLimits
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.journey.trail import Trail
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlframe.fetch.names.resolver import Names, Unresolved, load_hook
from crawlframe.fetch.plugin.downloader import Plugged, load
from crawlframe.identity.identity import Identity
from crawlframe.identity.tls import OF_TASK
from crawlframe.proxies.place import is_pool
from crawlframe.proxies.proxy import ChosenProxy, fixed_proxy
from crawlframe.proxies.selector import DIRECT
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.options import NO_OPTIONS
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_LANGUAGE = "en"
MAX_SLOPPY = 1000  # hosts remembered

log = logging.getLogger(__name__)


class Downloader:
    """The fetches of one worker. Belongs to the process and event loop of its first fetch.
    ``identity`` is added to every request that leaves; without one, nothing is."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity | None = None,
        names: Names | None = None,
        pick: Callable[[str], ChosenProxy | None] = lambda choice: None,
        browser: Path | None = None,
    ) -> None:
        """Raises ConfigError if the resolver of the settings cannot be used. ``names`` replaces it.
        ``pick`` returns a proxy of the pool for a request that comes without one. ``browser``: the
        socket of the node's browser host; None: it starts its own."""
        self._pick = pick
        self._settings = settings
        self._identity = identity or Identity()
        self._names = names or Names(load_hook(settings.resolver))
        self._curl = CurlDownloader(settings.allow_private, settings.concurrency, self._names)
        self._browser = browser
        self._others: dict[str, Any] = {}  # made when they are needed
        # Hosts that send headers that libcurl refuses.
        self._sloppy: BoundedDict[str, None] = BoundedDict(MAX_SLOPPY)
        self._files = FileSaver(settings)
        self.pictures = PictureStore(settings)
        self.memory = TransferMemory(settings.transfer_memory << 20)

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        """The response to ``request``. Raises FetchError, errors of the context's check, and with a
        trail Redirected instead of following a redirect, or Challenged."""
        if context.account is None:
            with self.memory.account() as own:
                # Not a subclass's, which has called this one.
                return await Downloader.fetch(self, request, settings, context.counted_by(own))
        proxy = context.proxy or self.proxy_for(request, settings)
        limits = limits_of(request, settings)
        jar = context.jar
        if not settings.cookies and request.options.session is None:
            jar = None
        headers = self._headers(request, settings, context.trail)
        saving = None
        if request.options.save:
            saving = self._files.begin(request, settings, context.rid)
        tls = settings.tls or OF_TASK.get()
        journey = Journey(
            *(request, limits, headers, jar, context),
            identity=None if self._identity.is_plain else self._identity,
            saving=saving,
            proxy=proxy,
            tls=tls,
            keeps=settings.kept == "all",
        )
        name = request.downloader or settings.downloader
        if tls and journey.tls is not None and name not in ("curl", "requests"):
            raise TlsError(f"{journey.where}: the setting tls is for curl and requests, not {name}")
        transfer: Callable[[Journey], Awaitable[Answer]] = self._transfer
        if name == "requests":
            factory = getattr(context.spider, "requests_session", None)
            transfer = partial(self._other(name).transfer, factory=factory)
        elif name == BROWSER:
            owner = "" if context.spider is None else str(context.spider._task)
            transfer = partial(
                self._other(name).transfer,
                request=request, settings=settings, owner=owner, accept=ACCEPT,
            )  # fmt: skip
        elif name != "curl":
            transfer = self._other(name).transfer
        with saving or nullcontext():
            return await journey.run(transfer)

    async def _transfer(self, journey: Journey) -> Answer:
        """Fetches with curl, or with requests if a header line without a colon makes libcurl
        fail."""
        if not self._sloppy or host_of(journey.url) not in self._sloppy:
            try:
                return await self._curl.transfer(journey)
            except BadHeader:
                self._remember(host_of(journey.url))
                if not journey.idempotent:
                    raise
                journey.account.restart()
        answer: Answer = await self._other("requests").transfer(journey)
        return answer

    def _remember(self, host: str) -> None:
        self._sloppy[host] = None
        log.info(
            "%s sends header lines without a colon; it is fetched with requests from now on", host
        )

    async def address_of(self, url: str) -> str:
        """The IP address to which a connection would be made first; "" if there is none."""
        try:
            return (await self._names.resolve(hostname_of(url))).addresses[0]
        except Unresolved:
            return ""

    async def sweep(self) -> None:
        """Deletes parts of saved files that killed workers have left."""
        try:
            await self._files.sweep()
        except OSError as error:
            log.warning("what is left of files could not be deleted: %s", error)

    async def close(self) -> None:
        """Ends all transfers, connections and threads."""
        await self._curl.close()
        for client in self._others.values():
            await client.close()
        self._others.clear()
        await self._names.close()

    def _other(self, name: str) -> Any:
        """The downloader of this name. Raises DownloaderFailed."""
        if name not in self._others:
            self._others[name] = self._made(name)
        return self._others[name]

    def _made(self, name: str) -> Any:
        private, concurrency = self._settings.allow_private, self._settings.concurrency
        if name == "requests":
            # Imported here: few crawls need it, and it takes time and memory.
            from crawlframe.fetch.requests.downloader import RequestsDownloader

            return RequestsDownloader(private, concurrency, self._names)
        if name == BROWSER:
            from crawlframe.fetch.browser.client import BrowserClient

            return BrowserClient(self._settings, self._browser)
        return Plugged(name, load(name, concurrency), AddressGuard(private), self._names)

    def proxy_for(self, request: Request, settings: SpiderSettings) -> ChosenProxy | None:
        """The proxy that a request or its spider asks for. Raises ProxyFailed if there is none: it
        must not go out without."""
        choice = request.options.proxy or settings.proxy or DIRECT
        if choice == DIRECT:
            return None
        found = self._pick(choice) if is_pool(choice) else fixed_proxy(choice)
        if found is None:
            raise ProxyFailed(f"{request.url}: no proxy for {choice!r} is known here; not sent")
        return found

    def _headers(
        self, request: Request, settings: SpiderSettings, trail: Trail | None = None
    ) -> dict[str, str]:
        """The headers to send: defaults, overridden by the spider's, overridden by the
        request's."""
        headers = {
            "User-Agent": settings.user_agent or self._settings.user_agent,
            "Accept": ACCEPT,
            "Accept-Language": ACCEPT_LANGUAGE,
            # Parts of a compressed file could not be put together.
            "Accept-Encoding": "identity" if request.options.save else ACCEPTED,
        }
        of_spider = trail.left_of(settings.headers) if trail else settings.headers
        for more in (of_spider, request.headers):
            if more:
                names = {name.lower() for name in more}
                headers = {k: v for k, v in headers.items() if k.lower() not in names} | {**more}
        return headers


def limits_of(request: Request, settings: SpiderSettings) -> FetchLimits:
    """The limits of a request of a spider with these settings."""
    limits = FetchLimits(settings.timeout, settings.max_body, settings.max_redirects)
    options = request.options
    if options is NO_OPTIONS:
        return limits
    usual = settings.file_timeout if options.save else limits.timeout
    return limits._replace(
        timeout=usual if options.timeout is None else options.timeout,
        max_body=limits.max_body if options.max_body is None or options.save else options.max_body,
        max_redirects=limits.max_redirects if options.redirects is None else options.redirects,
        follow=options.redirects != 0,
    )
