"""SitemapSpider: asks for the pages that the sitemaps of a site list."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from msgspec import Meta

from crawlframe.base.urls import join
from crawlframe.errors import SpiderError
from crawlframe.request.request import Request
from crawlframe.response.link_extractor import compiled
from crawlframe.response.response import Response
from crawlframe.robots.rules import Rules, origin_of, read_text
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.spiders.sitemap_file import (
    MAX_BYTES,
    MAX_LENGTH,
    MAX_URLS,
    SINCE,
    Entry,
    SitemapFile,
    changed_since,
    moment_of,
    since_when,
)

STEP = 0.005  # seconds after which the other requests of the worker have their turn
TURN_TIMEOUT = 45.0  # seconds that a sitemap waits for its turn; callbacks have 120 in all


class ListedRequest(Request):
    """A request for a page that a sitemap lists. ``lastmod``: when the page changed, as it says, in
    seconds since the epoch; for the watch that the task belongs to."""

    __slots__ = ("lastmod",)
    lastmod: float

    def replace(self, **changes: Any) -> Request:
        changed = super().replace(**changes)
        listed = ListedRequest.__new__(ListedRequest)
        for name in Request.__slots__:
            setattr(listed, name, getattr(changed, name))
        listed.lastmod = self.lastmod
        return listed


class SitemapSpider(Spider):
    """Asks for the pages that sitemaps list; nothing else of the site is needed to find them.

    ``sitemap_urls`` are sitemaps, indexes of them, or robots.txt files, whose sitemaps are read.
    ``sitemap_rules`` are pairs of a regular expression and a callback: a page goes to the callback
    of the first expression found in its URL, and is left out if there is none. Sitemaps of an index
    are read if their URL matches one of ``sitemap_follow``. With ``sitemap_alternate_links``, the
    same pages in other languages are asked for, too.

    ``since`` is an argument of the task: a date, a time, or an age such as ``36h`` or ``7d``; pages
    and sitemaps that say that they have not changed since then are left out.

    Raises SpiderError when a class with wrong rules is defined."""

    sitemap_urls: ClassVar[Iterable[str]] = ()
    sitemap_rules: ClassVar[Any] = (("", "parse"),)
    sitemap_follow: ClassVar[Any] = ("",)
    sitemap_alternate_links: ClassVar[bool] = False
    _discovers: ClassVar[tuple[str, ...]] = ("read_sitemap",)
    since: Annotated[
        str, Meta(pattern=SINCE, description="a date such as 2026-11-20, or an age such as 7d")
    ] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.name:
            return
        if cls.start is SitemapSpider.start and not cls.sitemap_urls:
            raise SpiderError(
                f"spider {cls.name!r}: sitemap_urls is empty; name sitemaps or a robots.txt"
            )
        if isinstance(cls.sitemap_urls, str):
            raise SpiderError(
                f"spider {cls.name!r}: sitemap_urls must be a list of URLs, such as "
                '["https://example.com/robots.txt"]'
            )
        if not isinstance(cls.sitemap_rules, property | cached_property):
            _rules_of(cls)
        compiled(f"spider {cls.name!r}: sitemap_follow", cls.sitemap_follow)
        since_when(cls.since, datetime.now(UTC))

    def start(self) -> Iterator[Request]:
        for url in self.sitemap_urls:
            yield self.sitemap_request(url)

    def sitemap_request(self, url: str, **options: Any) -> Request:
        """Return a Request for a sitemap or a robots.txt, with 50 MiB as ``max_body`` unless the
        settings say otherwise. ``options`` are passed to Request."""
        return Request(url, "read_sitemap", max_body=self._max_body, **options)

    def sitemap_filter(self, entries: Iterable[Entry]) -> Iterable[Entry]:
        """Called with the entries of a sitemap, up to 50,000 at a time, as they are read; returns
        or yields those to follow. One that stops early ends the sitemap. By default all."""
        return entries

    async def read_sitemap(self, response: Response, skip: int = 0) -> AsyncIterator[Request]:
        """Yield the Requests for the pages of a sitemap, after ``skip`` entries. A sitemap of more
        than 50,000 entries is fetched again for each further 50,000, so that memory stays bounded.
        A worker reads one sitemap of a task at a time; if one waits too long, it is fetched
        again."""
        if urlsplit(response.request.url).path == "/robots.txt":
            text = read_text(response.body, response.headers.get("Content-Type", "")).text
            for url in Rules(origin_of(response.url), text).sitemaps:
                yield self.sitemap_request(url)
            return
        # The Requests of a sitemap are in memory until they are recorded, so sitemaps take turns.
        try:
            await asyncio.wait_for(self._turn.acquire(), TURN_TIMEOUT)
        except TimeoutError:
            yield response.request.replace(dont_filter=True, delay=TURN_TIMEOUT)
            return
        try:
            async for request in self._read(response, skip):
                yield request
        finally:
            self._turn.release()

    async def _read(self, response: Response, skip: int) -> AsyncIterator[Request]:
        steps = _Steps()
        file = SitemapFile(response)
        for _ in file.skip(skip):
            if steps.is_over():
                await steps.next()
        since = since_when(self.since, datetime.now(UTC))
        # Read before they are filtered, because nothing can interrupt the author's filter.
        entries: deque[Entry] = deque()
        left = iter(file)
        read = length = 0
        for entry in left:
            read += 1
            length += len(entry.loc)
            if since is None or not entry.lastmod or changed_since(entry.lastmod, since):
                entries.append(entry)
            if read == MAX_URLS or length > MAX_LENGTH:
                break
            if steps.is_over():
                await steps.next()
        more = next(left, None) is not None
        for entry in self.sitemap_filter(_drain(entries)):
            for request in self._requests(entry, response.url):
                yield request
            if steps.is_over():
                await steps.next()
        if more and not entries:  # the filter has taken all
            yield response.request.replace(cb_kwargs={"skip": skip + read}, dont_filter=True)
        elif file.problem and not more:
            self.stats.inc("broken_sitemaps")
            self.log.warning("%s: %s; what could be read is followed", response.url, file.problem)

    def _requests(self, entry: Entry, base: str) -> Iterator[Request]:
        if entry.is_sitemap:
            url = join(base, entry.loc)
            if url is not None and any(one.search(url) for one in self._follow):
                request = self.sitemap_request(url)
                request.priority -= 1  # behind the pages of those before it, which wait in Redis
                yield request
            return
        links = (entry.loc, *entry.alternates) if self.sitemap_alternate_links else (entry.loc,)
        for link in links:
            url = join(base, link)
            if url is not None:
                for pattern, callback in self._rules:
                    if pattern.search(url):
                        yield self._listed(url, callback, entry.lastmod)
                        break

    read_sitemap.finds_pages = True  # type: ignore[attr-defined]

    def _listed(self, url: str, callback: str, lastmod: str) -> Request:
        if not lastmod or not self.revisit or (when := moment_of(lastmod)) is None:
            return Request.plain(url, callback)
        request = ListedRequest.plain(url, callback)
        request.lastmod = when.timestamp()
        return request

    @cached_property
    def _turn(self) -> asyncio.Lock:
        return asyncio.Lock()

    @cached_property
    def _rules(self) -> list[Any]:
        return _rules_of(self)

    @cached_property
    def _follow(self) -> Any:
        return compiled(f"spider {self.name!r}: sitemap_follow", self.sitemap_follow)

    @cached_property
    def _max_body(self) -> int | None:
        own = read_settings(type(self)).max_body
        return MAX_BYTES if own == SpiderSettings().max_body else None


class _Steps:
    """Divides long work in the event loop by time."""

    def __init__(self) -> None:
        self._end = time.monotonic() + STEP

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    async def next(self) -> None:
        await asyncio.sleep(0)
        self._end = time.monotonic() + STEP


def _drain(entries: deque[Entry]) -> Iterator[Entry]:
    while entries:
        yield entries.popleft()


def _rules_of(spider: SitemapSpider | type[SitemapSpider]) -> list[Any]:
    """The rules as (compiled expression, name of a method). Raises SpiderError."""
    rules = []
    for number, rule in enumerate(spider.sitemap_rules, 1):
        where = f"spider {spider.name!r}: sitemap_rules: rule {number}"
        if not isinstance(rule, tuple | list) or len(rule) != 2:
            raise SpiderError(
                f'{where} must be a pair such as ("/product/", "parse_product"), not {rule!r}'
            )
        pattern, callback = rule
        name = callback if isinstance(callback, str) else getattr(callback, "__name__", "")
        method = getattr(spider, name or " ", None)
        if not callable(method) or getattr(method, "__func__", method) is Spider.parse:
            raise SpiderError(f"{where}: the spider has no method {name or callback!r}")
        rules.append((*compiled(where, pattern), name))
    return rules
