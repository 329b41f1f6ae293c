"""One page fetched as a node would fetch it, to look at or to play with at a prompt."""

from __future__ import annotations

import asyncio
import code
from dataclasses import dataclass, field
from typing import Any

from crawlframe.conf import Settings
from crawlframe.fetch.cookies import TaskCookies
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.middlewares import Middlewares
from crawlframe.fetch.redirects import Redirected, Trail
from crawlframe.identity.identity import Identity
from crawlframe.links import is_within
from crawlframe.record import Hop
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider, SpiderSettings, read_settings
from crawlservice.cli.robots_check import PageRobots


@dataclass
class PageFetcher:
    """Fetches with a spider's settings and middlewares; its arguments are not needed."""

    settings: Settings = field(repr=False)  # its many fields would fill a prompt
    spider: Spider | None = None
    downloader: str | None = None
    robots: bool = False  # ask robots.txt
    identity: Identity | None = field(default=None, repr=False)

    def fetch(self, url: str) -> Response:
        """Any status is fine. Raises BadRequest, FetchError and MiddlewareFailed; RobotsForbidden
        if robots.txt is asked."""
        return asyncio.run(self._fetch(Request(url, downloader=self.downloader)))

    async def _fetch(self, request: Request) -> Response:
        settings = read_settings(type(self.spider)) if self.spider else SpiderSettings()
        downloader, jar = Downloader(self.settings, self.identity), TaskCookies()
        check = None
        if self.robots:
            check = PageRobots(self.settings, downloader.fetch, settings.user_agent or "")

        middlewares = Middlewares(type(self.spider).middlewares if self.spider else ())
        record = request.encode()
        hops, trail = list[Hop](), Trail(Request.decode(record))

        async def download(asked: Request) -> Response:
            trail.hops = [*hops]
            response = await downloader.fetch(
                asked, settings, self.spider, jar, self._allows, check=check, trail=trail
            )
            if check is not None:
                response.robots = check.rules
            return response

        try:
            while True:
                try:
                    response = await middlewares.fetch(trail.next_request(), download)
                except Redirected:  # what middlewares changed was for that hop
                    hops, trail = trail.hops, Trail(Request.decode(record), trail.hops)
                    continue
                if hops:
                    Trail(request, hops).complete(response)
                return response
        finally:
            await downloader.close()

    def _allows(self, hostname: str) -> bool:
        """Whether a redirect may lead there."""
        domains = [one.lower() for one in self.spider.allowed_domains] if self.spider else []
        return not domains or is_within(hostname, domains)


def shell(fetcher: PageFetcher, response: Response) -> None:
    """A prompt with ``response``, ``request``, ``spider`` and ``fetch(url)``: IPython if there is
    one, else Python's own."""
    names: dict[str, Any] = {
        "response": response,
        "request": response.request,
        "spider": fetcher.spider,
        "fetch": fetcher.fetch,
    }
    banner = (
        f"response = {response.status} {response.url} ({len(response.body):,} bytes, "
        f"{response.kind})\nresponse.css(), .xpath(), .soup, .tree, .json(), .text, .headers; "
        "request, spider; fetch(url) gives another response. Ctrl-D leaves."
    )
    try:
        from IPython import start_ipython
    except ImportError:
        pass  # the prompt opens below: in here, every traceback would name this error
    else:
        print(banner)
        start_ipython(argv=["--no-banner"], user_ns=names)
        return
    code.interact(banner, local=names, exitmsg="")
