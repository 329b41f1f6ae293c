"""Site: the simulated web. A page is a function of its URL; its links and items are known in
advance, so a judge can say what a crawl must find."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

from multidict import CIMultiDict

from crawlframe.errors import ConnectionLost
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.journey import Answer, Journey
from tests.simulation.interpreter import SYSTEM

QUICK = 0.05  # seconds of an answer at most, usually
ASIDE = "&aside=1"  # at the end of the URL of a page that a callback waits for
FIRST_LINKS, LINKS = 12, 4  # of the first page, and of others: more than one call may take


class Site(NamedTuple):
    """Behaviour of all hosts of a seed. ``slow``, ``lost``: the shares of slow answers and of
    connections that are lost. ``sizes``: numbers of pages."""

    slow: float
    lost: float
    sizes: tuple[int, ...]


# While answers are slow, faults meet requests in progress; their time is less than a lease.
SLOW = 2.5  # seconds at most
UNAWARE = 1.0  # seconds in which nodes learn that what they have in flight counts no longer
SITES = (
    Site(0.02, 0.01, (5, 30, 80, 150)), Site(0.3, 0.01, (5, 30, 50)), Site(0.6, 0.1, (5, 20, 30)),
)  # fmt: skip


class Page(NamedTuple):
    links: list[str]
    items: int
    kind: str  # good, gone (status 404), fails (status 500), breaks (its callback raises), moved


def page_of(url: str) -> Page:
    """The page of a URL, such as http://h3.example/17?size=50&hosts=4&seed=9."""
    parts = urlsplit(url)
    query = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
    size, hosts, seed = query["size"], query["hosts"], query["seed"]
    number = int(parts.path[1:])
    mark = crc32(f"{seed}/{number}".encode())
    # Most pages have one link to them only: a lost one is missed.
    children = LINKS * number + FIRST_LINKS - LINKS
    near = range(children, children + LINKS) if number else range(1, FIRST_LINKS)
    targets = [*near, mark % size]
    links = [url_of(target, size, hosts, seed) for target in targets if target < size]
    kind = {7: "gone", 11: "fails", 13: "breaks"}.get(mark % 29, "good") if number else "good"
    if kind in ("gone", "fails", "breaks"):
        return Page([], 0, kind)
    return Page(links, mark % 3, kind)


def url_of(number: int, size: int, hosts: int, seed: int) -> str:
    host = crc32(f"host {seed} {number}".encode()) % hosts
    return f"http://h{host}.example/{number}?size={size}&hosts={hosts}&seed={seed}"


def closure(start: str, without: Collection[str] = ()) -> dict[str, Page]:
    """All pages that a crawl from a URL must end. ``without``: pages that yield no links."""
    found: dict[str, Page] = {}
    left = [start]
    while left:
        url = left.pop()
        if url not in found:
            found[url] = page_of(url)
            left += () if url in without else found[url].links
    return found


@dataclass
class Visit:
    """A request that a host has answered, or whose connection was closed. Times in seconds."""

    host: str
    begun: float
    ends: float
    counts: bool  # not of a node that stood still and has not learned that it is dead


class Web:
    """The hosts of one simulation, and the log of their visitors."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.fetches: list[Visit] = []
        self.losses: list[float] = []  # when Redis lost data, in seconds
        self.on_answer: Callable[[], None] = lambda: None  # in the process that gets it
        self.times: defaultdict[str, int] = defaultdict(int)  # fetches of a URL
        self.explained = 0  # further fetches that answers of the sites lead to

    async def answer(self, url: str) -> tuple[int, bytes]:
        scheduler = SYSTEM.scheduler
        self.times[url] += 1
        lost = scheduler.random.random() < self._site.lost
        most = SLOW if scheduler.random.random() < self._site.slow else QUICK
        seconds = most * scheduler.random.random()
        now, woken = scheduler.now, SYSTEM.process.paused_until  # type: ignore[union-attr]
        counts = not woken or now > woken + UNAWARE
        visit = Visit(urlsplit(url).netloc, now, now + seconds, counts)
        self.fetches.append(visit)
        try:
            await asyncio.sleep(seconds)
        finally:  # a visitor that stands still has its answer all the same
            visit.ends = min(visit.ends, scheduler.now)
        page = page_of(url)
        if page.kind == "gone":
            return 404, b"gone"
        if page.kind == "fails":
            self.explained += self.times[url] == 1
            return 500, b"failed"
        if lost:
            self.explained += 1
            raise ConnectionLost(f"{url}: the server hung up")
        return 200, json.dumps(page._asdict()).encode()


class SimulatedDownloader(Downloader):
    """The product's downloader, whose transfers go to the simulated web."""

    web: Web

    async def _transfer(self, journey: Journey) -> Answer:
        await journey.wait_to_send()
        journey.send_time.sent()
        try:
            status, body = await asyncio.wait_for(self.web.answer(journey.url), journey.left())
        except TimeoutError:  # of a worker that stood still
            raise journey.timeout() from None
        self.web.on_answer()
        await journey.account.reserve(len(body))
        return Answer(status, CIMultiDict({"Content-Type": "application/json"}), body, "127.0.0.1")

    async def address_of(self, url: str) -> str:
        return "127.0.0.1"

    async def close(self) -> None:
        pass
