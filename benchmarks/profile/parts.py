"""Parts: the parts that are measured. Each is the real code on the pages of the standard job."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import uvloop

from benchmarks.standard.site import Site
from benchmarks.standard.spiders.standard import Standard, StandardParsel
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.frontier.client.records import ANSWERED, Claimed, Signal, TaskView
from crawlframe.node.messages import Run, WorkerReport, child_line
from crawlframe.node.running_marks import RunningMarks
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.request.request import Request, make_rid
from crawlframe.response.response import Response
from crawlframe.run.collector import Collector
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.link_filters import KnownFilter, LinkPage
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import read_settings
from crawlframe.testing.trial import OneTask

HEADERS = [("Content-Type", "text/html; charset=utf-8")]
IN_FLIGHT = 64
REQUESTS_PER_MESSAGE = 16  # requests in a message of the master
REPEATS = 3  # the best of them counts: any excess was due to other processes
HERE = Settings(allow_private=(ipaddress.ip_network("127.0.0.0/8"),), concurrency=IN_FLIGHT)


class Part(NamedTuple):
    """Microseconds of processor time per page. ``where``: the process or thread it is in."""

    where: str
    name: str
    micros: float


class Page(NamedTuple):
    url: str
    body: bytes

    def response(self) -> Response:
        return Response(self.url, 200, HEADERS, self.body, Request.plain(self.url))


def pages_of(site: Site) -> list[Page]:
    """All pages of the site."""
    return [Page(site.url_of(n), site.page(n).encode()) for n in range(site.pages)]


def best(work: Callable[[], object], pages: int) -> float:
    """Microseconds of this process per page."""
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times) / pages * 1e6


# -- fetch and engine -----------------------------------------------------------------------------


def fetch(pages: list[Page]) -> Part:
    """Requests to responses, through nginx."""

    async def crawl() -> None:
        downloader, settings = Downloader(HERE), read_settings(Standard)
        context = FetchContext(spider=Standard())
        urls = iter(pages)

        async def one_by_one() -> None:
            for page in urls:
                response = await downloader.fetch(Request.plain(page.url), settings, context)
                assert response.body == page.body

        await asyncio.gather(*(one_by_one() for _ in range(IN_FLIGHT)))
        await downloader.close()

    return Part("worker", "fetch", best(lambda: uvloop.run(crawl()), len(pages)))


class _Fetched(Downloader):
    """A downloader that already has the responses."""

    def __init__(self, pages: Iterable[Page]) -> None:
        super().__init__(HERE)
        self._responses = {page.url: page.response() for page in pages}

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        return self._responses[request.url]


def engine(pages: list[Page]) -> Part:
    """The engine from a claimed request to an outcome, without fetch and callback."""
    claimed = [held(page.url) for page in pages]
    marks = RunningMarks(1, IN_FLIGHT)
    place = marks.take()
    maker = CrawlMaker(Registry.load("benchmarks.profile.spiders"), HERE.deadline)

    async def crawl() -> None:
        spec = TaskSpec(1, "idle", {}, 0)
        mark = partial(marks.write, place)
        runner = OneTask(spec, maker.make, _Fetched(pages), HERE, mark=mark).runner
        for request in claimed:
            await runner.run(request, TaskView("running", 0))

    return Part("worker", "engine", best(lambda: uvloop.run(crawl()), len(pages)))


def held(url: str) -> Claimed:
    """A request as returned by a claim."""
    request = Request.plain(url, "parse")
    return Claimed(make_rid(1, request.fingerprint()), 1, request.host, 0, 0, request.encode())


def messages(pages: list[Page]) -> list[Part]:
    """The pipe between master and worker, both ways."""
    claimed = [held(page.url) for page in pages]
    ours, theirs = child_line()
    views = {1: TaskView("running", 0)}
    sent = received = 0.0
    for start in range(0, len(claimed), REQUESTS_PER_MESSAGE):
        batch = claimed[start : start + REQUESTS_PER_MESSAGE]
        began = time.process_time()
        ours.send(Run(batch, views))
        between = time.process_time()
        (message,) = theirs.receive()
        assert isinstance(message, Run)
        signal = Signal(ANSWERED, 50)
        fetched = [(request.rid, request.claim, signal) for request in message.requests]
        theirs.send(WorkerReport(len(batch), fetched, [rid for rid, _, _ in fetched]))
        end = time.process_time()
        ours.receive()
        sent += time.process_time() - end + between - began
        received += end - between
    ours.close()
    theirs.close()
    return [
        Part("master", "messages", sent / len(pages) * 1e6),
        Part("worker", "messages", received / len(pages) * 1e6),
    ]


# -- the callback, by the cost of each further step --------------------------------------------


def callback(pages: list[Page]) -> list[Part]:
    """The callbacks with the fast tree; links are collected as in a worker that knows all."""

    def upto(step: Callable[[Response], object]) -> float:
        return best(lambda: [step(page.response()) for page in pages], len(pages))

    bare = upto(lambda response: response)
    tree = upto(lambda response: response.tree)
    links = upto(lambda response: response.links())
    spider = Standard()
    known = {
        Request.plain(link).fingerprint() for page in pages for link in page.response().links()
    }
    all_known = upto(lambda response: collected(spider, response, known))
    none_known = upto(lambda response: collected(spider, response, set()))
    parsel = upto(lambda response: collected(StandardParsel(), response, known))
    fields = upto(lambda response: [next(spider.parse(response))]) - links
    return [
        Part("worker", "parse", tree - bare),
        Part("worker", "fields", fields),
        Part("worker", "links", links - tree),
        Part("worker", "follow, links known", all_known - links - fields),
        Part("more", "follow, no link known", none_known - all_known),
        Part("more", "with parsel", parsel - all_known),
    ]


def collected(spider: Standard | StandardParsel, response: Response, known: set[bytes]) -> Outcome:
    """The outcome of the spider's callback."""
    outcome = Outcome(make_rid(1, response.url.encode()), 1, "", b"", 0, 0)
    collector = Collector(LinkPage(outcome, depth=1, known=(known, set())), [KnownFilter()])
    for thing in spider.parse(response):
        collector.take(thing)
    return outcome
