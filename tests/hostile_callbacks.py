"""Callbacks: the work of spiders on a page, each with one of the parsers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from crawlframe import Request, Response
from crawlframe.errors import UnparsablePage
from crawlframe.run.collector import Collector
from crawlframe.run.link_filters import KnownFilter, LinkPage
from crawlframe.run.outcome import Outcome
from spiders.site import SiteSpider
from tests.hostile_corpus import Hostile

URL = "http://example.com/"


def site(response: Response) -> Iterable[Any]:
    """The site spider, which uses the fast tree."""
    spider = SiteSpider()
    spider.url = URL
    return spider.parse(response)


def links(response: Response) -> Iterable[Any]:
    return response.follow_all(response.links(), "parse")


def css(response: Response) -> Iterable[Any]:
    if response.kind == "json":
        return [{"found": response.jmespath("a").getall()}]
    title = response.css("title::text").get()
    return [{"title": title}, *response.follow_all(response.css("a::attr(href)"), "parse")]


def soup(response: Response) -> Iterable[Any]:
    if response.kind == "json":
        return [{"found": bool(response.json())}]
    title = response.soup.title
    anchors = response.soup.find_all("a")
    return [{"title": title and title.get_text()}, *response.follow_all(anchors, "parse")]


CALLBACKS: dict[str, Callable[[Response], Iterable[Any]]] = {
    "site": site,
    "links": links,
    "css": css,
    "soup": soup,
}


def run(callback: Callable[[Response], Iterable[Any]], response: Response) -> Outcome:
    """Runs it as a worker does. Raises its exceptions."""
    outcome = Outcome(b"", 1, "example.com", b"", 0, 0)
    collector = Collector(LinkPage(outcome, depth=1), [KnownFilter()])
    for thing in callback(response):
        collector.take(thing)
    return outcome


class Held(NamedTuple):
    """``outcome`` is "done", or the reason with which the request would end."""

    callback: str
    seconds: float
    outcome: str


def held(page: Hostile, size: int) -> list[Held]:
    """Each callback with the page as a fresh response, and how long it holds the event loop, in
    seconds of processor time."""
    body = page.body(size)
    found = []
    for name, callback in CALLBACKS.items():
        headers = {"Content-Type": page.content_type}
        response = Response(URL, 200, headers, body, Request(URL))
        started = time.process_time()
        try:
            run(callback, response)
            outcome = "done"
        except UnparsablePage as error:
            outcome = error.reason
        found.append(Held(name, time.process_time() - started, outcome))
    return found
