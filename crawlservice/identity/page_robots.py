"""The robots.txt of a page that a command fetches. It is read for this page, and nothing is kept: a
single fetch by a person is no crawl."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlframe.conf import Settings
from crawlframe.errors import RobotsForbidden, RobotsUnread
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.reading import MAX_FILE, judge, read
from crawlframe.robots.rules import Rules, origin_of, product_token
from crawlframe.robots.state import RobotsState
from crawlframe.spider.settings import SpiderSettings

Fetch = Callable[[Request, SpiderSettings], Awaitable[Response]]


class PageRobots:
    """Checks the URLs that are sent for one page. ``rules``: of the last URL's robots.txt."""

    def __init__(self, settings: Settings, fetch: Fetch, user_agent: str = "") -> None:
        """``fetch``: a Downloader's method. ``user_agent``: the spider's own; "": as in the
        settings."""
        self.rules = Rules()
        self._settings = settings
        self._fetch = fetch
        self._user_agent = user_agent or settings.user_agent
        self._known: dict[str, Rules] = {}

    async def __call__(self, url: str) -> None:
        """Raises RobotsForbidden, and RobotsUnread if the file cannot be read."""
        origin = origin_of(url)
        if origin not in self._known:
            self._known[origin] = await self._read(origin)
        self.rules = self._known[origin]
        token = product_token(self._user_agent)
        if not self.rules.allows(url):
            raise RobotsForbidden(f"{origin}/robots.txt forbids {url} to {token}")

    async def _read(self, origin: str) -> Rules:
        limits = SpiderSettings(max_body=MAX_FILE, cookies=False)

        async def transfer(url: str) -> Response:
            headers = {"User-Agent": self._user_agent}
            return await self._fetch(Request(url, headers=headers, redirects=0), limits)

        token = product_token(self._user_agent)
        state = judge(
            RobotsState(), await read(origin, transfer), 1.0, token, self._settings.max_crawl_delay
        )
        if not state.is_known(1.0):
            raise RobotsUnread(origin, state.reason, state.note, 0.0)
        return Rules(origin, state.text, token)
