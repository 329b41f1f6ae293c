"""Fetches inside of callbacks and middlewares: how they share the limits of their hosts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from multidict import CIMultiDict

from crawlframe.conf import Settings
from crawlframe.errors import FetchError
from crawlframe.fetch.journey.context import SendTime
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.fetch.page_cache import PageCache
from crawlframe.frontier.client.records import ANSWERED, NOTHING, REFUSED, Claimed
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.fetch.permits import HeldPermit, HostFetch, HostPermits
from crawlframe.node.worker.fetch.replay import CacheReplay
from crawlframe.node.worker.robots.guard import RobotsGuard
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.middleware import CallNext
from crawlframe.spider.spider import Spider
from tests.node import test_challenges as challenges
from tests.node import test_robots as robots
from tests.node.runner import Tasks, items
from tests.node.test_redirects import A, B, Web

SOON = 5  # seconds until a hanging test fails
PAGE, INSIDE = f"{A}/page", f"{A}/inside"


class Recorded(HostPermits):
    """Gives every permit; ``taken`` has (host, own, kind of its signal)."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bool, int]] = []
        self.open: list[str] = []
        self.most = 0

    @contextlib.asynccontextmanager
    async def take(
        self, crawl: TaskCrawl, asked: HostFetch, send_time: SendTime
    ) -> AsyncIterator[HeldPermit]:
        held, host = HeldPermit(), asked.host
        self.open.append(host)
        self.most = max(self.most, len(self.open))
        await asyncio.sleep(0)
        try:
            yield held
        finally:
            self.open.remove(host)
            self.taken.append((host, asked.lender != b"", held.signal.kind))


class Fetches(Spider):
    """Fetches ``inside`` in its callback."""

    name = "fetches"
    inside: tuple[str, ...] = (INSIDE,)

    def start(self) -> None: ...

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for url in self.inside:
            try:
                got = await fetch(self, url)
                yield {"status": got.status, "url": got.url}
            except FetchError as error:
                yield {"reason": error.reason}


async def fetch(spider: Spider, url: str) -> Response:
    assert spider._inline is not None
    return await spider._inline.fetch(Request(url))


class Worker:
    """One worker with a task of one spider."""

    def __init__(self, spider: type[Spider], pages: dict[str, Any] | None = None, **more: Any):
        self.web = Web(pages or {})
        self.permits = Recorded()
        self.fetched: list[Claimed] = []
        more.setdefault("fetched", lambda claimed, signal: self.fetched.append(claimed))
        self.task = Tasks(spider, self.web, permits=self.permits, **more)

    async def run(self, url: str = PAGE) -> Outcome:
        async with asyncio.timeout(SOON):
            return await self.task.run(Request(url))


def test_after_the_page_its_host_is_one_like_any_other() -> None:
    class Two(Fetches):
        inside = (INSIDE, f"{B}/x")

    async def run() -> None:
        worker = Worker(Two)
        outcome = await worker.run()
        assert [one["status"] for one in items(outcome)] == [200, 200], outcome.detail
        assert worker.permits.taken == [
            ("a.example", False, ANSWERED),
            ("b.example", False, ANSWERED),
        ]

    asyncio.run(run())


class Token:
    """A middleware that asks the same host for a token before each request, as a login does."""

    spider: ClassVar[Spider]

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        if "/token" not in request.url:
            await asyncio.gather(*(fetch(Token.spider, f"{A}/token{n}") for n in range(2)))
        return await call_next(request)


class LoggedIn(Fetches):
    middlewares = (Token,)

    async def opened(self, task: Any) -> None:
        Token.spider = self


def test_a_middleware_may_fetch_from_the_host_of_its_request() -> None:
    """Its slot is lent to one fetch at a time; the middleware runs around each of them, too."""

    async def run() -> None:
        worker = Worker(LoggedIn)
        outcome = await worker.run()
        assert outcome.verdict is Verdict.DONE, outcome.detail
        urls = [url.rpartition("/")[2] for url in worker.web.urls]
        assert urls == ["token0", "token1", "page", "token0", "token1", "inside"]
        assert [own for _, own, _ in worker.permits.taken] == [True] * 3 + [False] * 3

    asyncio.run(run())


def test_cookies_of_a_fetch_in_a_middleware_are_shared() -> None:
    """Cookies that the page sets do not replace them."""

    async def run(*setting: str) -> Outcome:
        worker = Worker(LoggedIn)
        worker.web.cookies = {url: f"n{number}=1" for number, url in enumerate(setting)}
        return await worker.run()

    for setting in ([f"{A}/token0"], [f"{A}/token0", PAGE]):
        outcome = asyncio.run(run(*setting))
        assert outcome.fetch.cookies is not None
        names = {name.rpartition(" ")[2] for name in outcome.fetch.cookies}
        assert len(outcome.fetch.cookies) == len(setting), names


def test_a_middleware_that_repeats_an_inline_fetch_begins_where_it_did() -> None:
    class Twice:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            if request.url != PAGE:
                with contextlib.suppress(FetchError):
                    await call_next(request)
            return await call_next(request)

    class Repeated(Fetches):
        inside = (f"{A}/old",)
        middlewares = (Twice,)

    async def run() -> None:
        worker = Worker(Repeated, {f"{A}/old": (301, f"{A}/new"), f"{A}/new": (200, "")})
        outcome = await worker.run()
        assert items(outcome) == [{"status": 200, "url": f"{A}/new"}]
        assert worker.web.urls == [PAGE, f"{A}/old", f"{A}/new", f"{A}/new"]

    asyncio.run(run())


def test_without_a_frontier_nothing_waits_for_ever() -> None:
    class Hasty(LoggedIn):
        settings: ClassVar[dict[str, Any]] = {"delay": 0}

    async def run() -> None:
        web = Web({})
        async with asyncio.timeout(SOON):
            outcome = await Tasks(Hasty, web).run(Request(PAGE))
        assert outcome.verdict is Verdict.DONE, outcome.detail
        assert len(web.urls) == 6

    asyncio.run(run())


def test_a_slow_callback_lends_the_slot_that_it_keeps() -> None:
    async def run() -> None:
        worker = Worker(Fetches)
        worker.task.runner.callbacks.expect(1, "parse", computes=False)
        await worker.run()
        assert worker.fetched == []
        assert worker.permits.taken == [("a.example", True, ANSWERED)]

    asyncio.run(run())


def test_an_errback_has_no_slot_to_lend() -> None:
    class Sorry(Fetches):
        settings: ClassVar[dict[str, Any]] = {"retries": 0}

        async def sorry(self, error: FetchError) -> AsyncIterator[Any]:
            yield {"url": (await fetch(self, INSIDE)).url}

    async def run() -> None:
        worker = Worker(Sorry, {PAGE: 500})
        outcome = await worker.task.run(Request(PAGE, errback="sorry"))
        assert items(outcome) == [{"url": INSIDE}]
        assert [own for _, own, _ in worker.permits.taken] == [False]

    asyncio.run(run())


def test_each_redirect_pays_for_its_host() -> None:
    async def run() -> None:
        worker = Worker(Fetches, {INSIDE: (302, f"{B}/x"), f"{B}/x": (301, f"{B}/y")})
        assert items(await worker.run()) == [{"status": 200, "url": f"{B}/y"}]
        assert [host for host, *_ in worker.permits.taken] == ["a.example"] + ["b.example"] * 2

    asyncio.run(run())


def test_a_redirect_that_is_followed_at_once_pays_for_its_host() -> None:
    """Between partitions, requests do not move."""

    class Outside(Fetches):
        inside = ()

    async def run() -> None:
        worker = Worker(Outside, {PAGE: (302, f"{B}/x")}, moves=lambda host, target: False)
        assert (await worker.run()).verdict is Verdict.DONE
        assert worker.web.urls == [PAGE, f"{B}/x"]
        assert worker.permits.taken == [("b.example", False, NOTHING)]

    asyncio.run(run())


def test_a_middleware_that_repeats_a_fetch_pays_for_the_second() -> None:
    class Twice:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            await call_next(request)
            return await call_next(request)

    class Repeated(Fetches):
        inside = ()
        middlewares = (Twice,)

    async def run() -> None:
        worker = Worker(Repeated)
        assert (await worker.run()).verdict is Verdict.DONE
        assert worker.web.urls == [PAGE, PAGE]
        assert worker.permits.taken == [("a.example", True, NOTHING)]

    asyncio.run(run())


def test_the_answer_to_a_challenge_pays_too() -> None:
    class Half(challenges.Protected):
        async def _transfer(self, journey: Journey) -> Answer:
            answer = await super()._transfer(journey)
            if journey.url == PAGE:
                self.sent.clear()
                return Answer(200, CIMultiDict(), b"body")
            return answer

    class Locked(Fetches):
        inside = (challenges.URL,)

    async def run() -> None:
        worker, web = Worker(Locked), Half()
        worker.task = Tasks(Locked, web, permits=worker.permits)
        assert items(await worker.run()) == [{"status": 200, "url": challenges.URL}]
        assert web.sent == [False, True]
        taken = [(host, own) for host, own, _ in worker.permits.taken]
        assert taken == [(challenges.HOST, False)] * 2

    asyncio.run(run())


def test_a_refusal_of_the_host_is_signalled() -> None:
    async def run() -> None:
        worker = Worker(Fetches, {INSIDE: 429})
        assert items(await worker.run())[0]["status"] == 429
        assert worker.permits.taken == [("a.example", False, REFUSED)]

    asyncio.run(run())


def test_no_more_wait_for_a_host_than_may_be_fetched_at_a_time() -> None:
    class Many(Fetches):
        settings: ClassVar[dict[str, Any]] = {"concurrency": 3}

        async def parse(self, response: Response) -> AsyncIterator[Any]:
            await asyncio.gather(*(fetch(self, f"{B}/{n}") for n in range(9)))
            yield {"done": 1}

    async def run() -> None:
        worker = Worker(Many)
        assert items(await worker.run()) == [{"done": 1}]
        assert (len(worker.permits.taken), worker.permits.most) == (9, 3)

    asyncio.run(run())


def test_bytes_are_counted_and_none_are_fetched_beyond_the_limit() -> None:
    class Bounded(Fetches):
        inside = (f"{B}/1", f"{B}/2", f"{B}/3")
        settings: ClassVar[dict[str, Any]] = {"host_byte_limit": 5}

    async def run() -> None:
        worker = Worker(Bounded)
        outcome = await worker.run()
        assert outcome.fetch.inline_bytes == {"b.example": 8}, "two bodies of four bytes"
        assert items(outcome)[2] == {"reason": "host_byte_limit"}
        assert outcome.fetch.budget is not None

    asyncio.run(run())


def test_a_kept_page_needs_no_permit(tmp_path: Path) -> None:
    async def run(twice: list[int]) -> None:
        replay = CacheReplay(lambda: PageCache(tmp_path / "pages"), places=False)
        for number in twice:
            worker = Worker(Fetches, {INSIDE: (302, f"{B}/x")}, replay=replay)
            assert items(await worker.run())[0]["url"] == f"{B}/x"
            assert len(worker.permits.taken) == number

    asyncio.run(run([2, 0]))


def test_a_robots_txt_is_brought_with_one_permit_and_the_page_with_the_next() -> None:
    class Polite(Fetches):
        inside = (f"{B}/x",)

    async def run() -> None:
        cluster = robots.Cluster()
        worker = Worker(Polite)
        web = robots.Web()
        permits = Recorded()
        guard = RobotsGuard(Settings(), web, cluster)
        worker.task = Tasks(Polite, web, permits=permits, robots=guard)
        first = await worker.run()  # the page waits for its own
        assert first.verdict is Verdict.RELEASE
        assert items(await worker.run()) == [{"status": 200, "url": f"{B}/x"}]
        assert web.urls[-2:] == [f"{B}/robots.txt", f"{B}/x"]
        assert [host for host, *_ in permits.taken] == ["b.example"] * 2

    asyncio.run(run())
