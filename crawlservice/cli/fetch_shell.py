"""One page fetched as a node would fetch it, to look at or to play with at a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from crawlframe.base.urls import is_within
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.trail import Trail
from crawlframe.fetch.middlewares import Middlewares
from crawlframe.identity.identity import Identity
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.shell.prompt import open_prompt
from crawlframe.shell.shell import view
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlservice.identity.page_robots import PageRobots


@dataclass
class PageFetcher:
    """Fetches with a spider's settings and middlewares; its arguments are not needed."""

    settings: Settings = field(repr=False)  # its many fields would fill a prompt
    spider: Spider | None = None
    downloader: str | None = None
    robots: bool = False  # ask robots.txt
    identity: Identity | None = field(default=None, repr=False)
    pick: Callable[[str], ChosenProxy | None] = field(default=lambda choice: None, repr=False)
    cookies: TaskCookies = field(default_factory=TaskCookies, repr=False)  # of all its fetches

    @property
    def spider_settings(self) -> SpiderSettings:
        """The spider's settings; the defaults without a spider."""
        return read_settings(type(self.spider)) if self.spider else SpiderSettings()

    def fetch(self, what: str | Request) -> Response:
        """Fetches a URL or a Request. Any status is fine. Raises BadRequest, FetchError and
        MiddlewareFailed; RobotsForbidden if robots.txt is asked."""
        request = what if isinstance(what, Request) else Request(what)
        if request.downloader is None:
            request = request.replace(downloader=self.downloader)
        return asyncio.run(self._fetch(request))

    async def _fetch(self, request: Request) -> Response:
        settings, jar = self.spider_settings, self.cookies
        downloader = Downloader(self.settings, self.identity, pick=self.pick)
        via, check = downloader.proxy_for(request, settings), None
        if self.robots:
            through = partial(downloader.fetch, context=FetchContext(proxy=via))
            check = PageRobots(self.settings, through, settings.user_agent or "")

        middlewares = Middlewares(type(self.spider).middlewares if self.spider else ())
        renew = partial(Request.decode, request.encode())
        trail = Trail(renew())
        context = FetchContext(
            spider=self.spider,
            jar=jar,
            allowed=self._allows,
            check=check,
            trail=trail,
            proxy=via,
        )

        async def download(asked: Request) -> Response:
            trail.begin()
            response = await downloader.fetch(asked, settings, context)
            if check is not None:
                response.robots = check.rules
            return response

        try:
            return await trail.follow(partial(middlewares.fetch, download=download), renew)
        finally:
            await downloader.close()

    def _allows(self, hostname: str) -> bool:
        """Whether a redirect may lead there."""
        domains = [one.lower() for one in self.spider.allowed_domains] if self.spider else []
        return not domains or is_within(hostname, domains)


def names_of(fetcher: PageFetcher, response: Response | None) -> dict[str, Any]:
    """The names at the prompt. ``fetch`` also sets ``response`` and ``request``."""

    def fetch(what: str | Request) -> Response:
        """Fetch a URL or a Request; it becomes `response`, and its request `request`."""
        fetched = fetcher.fetch(what)
        names.update(response=fetched, request=fetched.request)
        return fetched

    names: dict[str, Any] = {
        "response": response,
        "request": response.request if response is not None else None,
        "spider": fetcher.spider,
        "settings": fetcher.spider_settings,
        "fetch": fetch,
        "view": view,
        "Request": Request,
    }
    return names


def shell(fetcher: PageFetcher, response: Response | None) -> None:
    """Opens a prompt with these names."""
    names = names_of(fetcher, response)
    banner = ""
    if response is not None:
        size = f"{len(response.body):,} bytes, {response.kind}"
        banner = f"response = {response.status} {response.url} ({size})\n"
    banner += (
        "response.css(), .xpath(), .soup, .tree, .json(), .text, .headers; request, spider, "
        "settings\nfetch(url or Request) fetches another page; view(response) opens a browser. "
        "Ctrl-D leaves."
    )
    open_prompt(names, banner)
