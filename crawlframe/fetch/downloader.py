"""Downloader: fetches a spider's request with the client that the request names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawlframe.conf import Settings
from crawlframe.errors import BadHeader
from crawlframe.fetch.cookies import TaskCookies
from crawlframe.fetch.curl import CurlDownloader
from crawlframe.fetch.decoding import ACCEPTED
from crawlframe.fetch.limits import FetchLimits
from crawlframe.fetch.memory import Account, TransferMemory
from crawlframe.fetch.name_servers import Unresolved
from crawlframe.fetch.names import Names, load_hook
from crawlframe.fetch.redirects import Answer, Check, Journey, Trail
from crawlframe.fetch.send_time import SendTime
from crawlframe.identity.identity import Identity
from crawlframe.links import host_of, hostname_of
from crawlframe.options import NO_OPTIONS
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider, SpiderSettings

if TYPE_CHECKING:
    from crawlframe.fetch.browser.client import BrowserClient
    from crawlframe.fetch.requests_client import RequestsDownloader

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
        browser: Path | None = None,
    ) -> None:
        """Raises ConfigError if the resolver of the settings cannot be used. ``names`` replaces
        it. ``browser``: the socket of the node's browser host; None: it starts its own."""
        self._settings = settings
        self._identity = identity or Identity()
        self._names = names or Names(load_hook(settings.resolver))
        self._curl = CurlDownloader(settings.allow_private, settings.concurrency, self._names)
        self._requests: RequestsDownloader | None = None
        self._browser_socket = browser
        self._browser: BrowserClient | None = None
        self._sloppy: dict[str, None] = {}  # hosts that send headers that libcurl refuses
        self.memory = TransferMemory(settings.transfer_memory << 20)

    async def fetch(
        self,
        request: Request,
        settings: SpiderSettings,
        spider: Spider | None = None,
        jar: TaskCookies | None = None,
        allowed: Callable[[str], bool] | None = None,
        account: Account | None = None,
        check: Check | None = None,
        trail: Trail | None = None,
        send_time: SendTime | None = None,
    ) -> Response:
        """The response to ``request``. ``spider`` may have a method ``requests_session`` for the
        requests downloader. ``jar`` are the task's cookies; without the setting ``cookies``, only a
        request with a session uses them. ``allowed`` decides about the host names of redirects.
        ``account`` counts the body of the response until its owner closes it; without one it counts
        until the fetch is over. ``check`` is awaited with each URL before it is sent, those of
        redirects too. ``trail``: ``request`` is for the target of its last redirect. ``send_time``:
        of its transfers. Raises FetchError, what ``check`` raises, and with a trail Redirected
        instead of following a redirect, or Challenged."""
        if account is None:
            with self.memory.account() as own:
                return await self.fetch(
                    request, settings, spider, jar, allowed, own, check, trail, send_time
                )
        limits = limits_of(request, settings)
        if not settings.cookies and request.options.session is None:
            jar = None
        headers = self._headers(request, settings, trail)
        identity = None if self._identity.is_plain else self._identity
        journey = Journey(
            request, limits, headers, jar, allowed, account, check, trail, identity, send_time
        )
        match request.downloader or settings.downloader:
            case "requests":
                factory = getattr(spider, "requests_session", None)
                return await journey.run(self._threads().by(factory))
            case "browser":
                owner = str(spider._task) if spider is not None else ""
                render = partial(
                    self._pages().transfer,
                    request=request,
                    settings=settings,
                    owner=owner,
                    accept=ACCEPT,
                )
                return await journey.run(render)
        return await journey.run(self._transfer)

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
        return await self._threads().transfer(journey)

    def _remember(self, host: str) -> None:
        self._sloppy[host] = None
        if len(self._sloppy) > MAX_SLOPPY:
            del self._sloppy[next(iter(self._sloppy))]
        log.info(
            "%s sends header lines without a colon; it is fetched with requests from now on", host
        )

    async def address_of(self, url: str) -> str:
        """The IP address to which a connection would be made first; "" if there is none."""
        try:
            return (await self._names.resolve(hostname_of(url))).addresses[0]
        except Unresolved:
            return ""

    async def close(self) -> None:
        """Ends all transfers, connections and threads."""
        await self._curl.close()
        if self._requests is not None:
            await self._requests.close()
            self._requests = None
        if self._browser is not None:
            await self._browser.close()
            self._browser = None
        await self._names.close()

    def _threads(self) -> RequestsDownloader:
        if self._requests is None:
            # Imported here: few crawls need it, and it takes time and memory.
            from crawlframe.fetch.requests_client import RequestsDownloader

            concurrency = self._settings.concurrency
            self._requests = RequestsDownloader(
                self._settings.allow_private, concurrency, self._names
            )
        return self._requests

    def _pages(self) -> BrowserClient:
        if self._browser is None:
            from crawlframe.fetch.browser.client import BrowserClient

            self._browser = BrowserClient(self._settings, self._browser_socket)
        return self._browser

    def _headers(
        self, request: Request, settings: SpiderSettings, trail: Trail | None = None
    ) -> dict[str, str]:
        """The headers to send: defaults, overridden by the spider's, overridden by the
        request's."""
        headers = {
            "User-Agent": settings.user_agent or self._settings.user_agent,
            "Accept": ACCEPT,
            "Accept-Language": ACCEPT_LANGUAGE,
            "Accept-Encoding": ACCEPTED,
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
    return limits._replace(
        timeout=limits.timeout if options.timeout is None else options.timeout,
        max_body=limits.max_body if options.max_body is None else options.max_body,
        max_redirects=limits.max_redirects if options.redirects is None else options.redirects,
        follow=options.redirects != 0,
    )
