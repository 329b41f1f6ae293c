"""Robots in a worker: the reader of the file, the waiting requests, and their outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import ConnectError, FetchError, PrivateAddress, TlsError
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.node.worker.fetch.fetching import download
from crawlframe.node.worker.robots.guard import MAX_CACHED, RECHECK, RobotsGuard
from crawlframe.node.worker.robots.site_files import LEASE, RobotsStore
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.state import RobotsState, Status
from crawlframe.run.ledger import RobotsTurn
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.middleware import CallNext, Middleware
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
from crawlframe.testing.hostile_server import HostileServer
from tests.node.runner import HERE, Tasks, items

NOW = 1_800_000_000.0
RULES = "User-agent: *\nDisallow: /private\nSitemap: http://a.example/map.xml\n"
ORIGIN = "http://a.example"
URL = f"{ORIGIN}/page"
ROBOTS = f"{ORIGIN}/robots.txt"


class Polite(Spider):
    name = "polite"
    settings: ClassVar[dict[str, Any]] = {"retries": 2}

    def parse(self, response: Response) -> Iterator[Any]:
        robots = response.robots
        yield {
            "sitemaps": [*robots.sitemaps],
            "delay": robots.crawl_delay,
            "private": robots.allows(f"{ORIGIN}/private"),
        }

    def sorry(self, error: FetchError) -> Iterator[Any]:
        yield {"reason": error.reason, "url": error.request.url}


class Rude(Polite):
    name = "rude"
    settings: ClassVar[dict[str, Any]] = {"robots": False}


class Web(Downloader):
    """``pages``: URL -> body, error, or (status, headers); others are empty pages. It checks URLs
    as the real one does."""

    def __init__(self, **pages: Any) -> None:
        super().__init__(Settings())
        self.pages: dict[str, Any] = {ROBOTS: RULES}
        self.asked: list[Request] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        if context.check is not None:
            await context.check(request.url)
        self.asked.append(request)
        await self.gate.wait()
        page = self.pages.get(request.url, "")
        if isinstance(page, FetchError):
            raise page
        if isinstance(page, tuple):
            return Response(request.url, page[0], page[1], b"", request)
        return Response(request.url, 200, {}, page.encode(), request)

    @property
    def urls(self) -> list[str]:
        return [request.url for request in self.asked]


class Cluster(RobotsStore):
    """The state shared by the workers, in memory. ``now``: the database's clock."""

    def __init__(self) -> None:
        self.now = NOW
        self.states: dict[str, RobotsState] = {}
        self.leases: dict[str, float] = {}
        self.gates: dict[str, tuple[float, float]] = {}  # host -> known until, delay
        self.held: list[tuple[str, float]] = []
        self.number: int | None = 0
        self.looks = Counter[str]()

    async def turn(self, origin: str) -> RobotsTurn:
        self.looks[origin] += 1
        state = self.states.get(origin, RobotsState())
        mine = state.is_due(self.now) and self.leases.get(origin, 0) <= self.now
        if mine:
            self.leases[origin] = self.now + LEASE
        return RobotsTurn(state, self.now, mine)

    async def keep(self, origin: str, lease: float) -> None:
        self.leases[origin] = self.now + lease

    async def save(self, origin: str, state: RobotsState) -> None:
        self.states[origin] = state
        self.leases.pop(origin, None)

    async def open(self, host: str, known_until: float, delay: float, now: float) -> bool:
        before, self.gates[host] = self.gates.get(host), (known_until, delay)
        return before != self.gates[host]

    async def defer_for_robots(self, host: str, seconds: float, *, errand: bool = False) -> None:
        self.held.append((host, seconds))

    async def forgotten(self) -> int | None:
        return self.number


class Worker:
    """One worker with a task of one spider; ``clock`` is its own."""

    def __init__(
        self,
        cluster: Cluster,
        spider: type[Spider] = Polite,
        moves: Callable[[str, str], bool] = lambda host, target: False,
        **settings: Any,
    ) -> None:
        self.web = Web()
        self.clock = 0.0
        self.freed: list[bytes] = []
        conf = Settings(**settings)
        self.guard = RobotsGuard(conf, self.web, cluster, lambda: self.clock)
        self.task = Tasks(
            spider,
            self.web,
            settings=conf,
            robots=self.guard,
            fetched=lambda claimed, signal: self.freed.append(claimed.rid),
            clock=lambda: self.clock,
            moves=moves,
        )

    async def run(self, url: str = URL, **options: Any) -> Outcome:
        return await self.task.run(Request(url, **options))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def run(job: Callable[[], Any]) -> Any:
    return asyncio.run(job())


def test_the_first_request_brings_the_file_and_goes_back(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        first = await worker.run()
        assert (first.verdict, first.attempts) == (Verdict.RELEASE, 0)
        assert worker.web.urls == [ROBOTS]
        assert worker.freed == [], "its slot is freed with the release"
        assert cluster.gates == {"a.example": (NOW + 86_400, 0.0)}
        again = await worker.run()
        assert again.verdict is Verdict.DONE
        assert items(again) == [
            {"sitemaps": ["http://a.example/map.xml"], "delay": 0, "private": False}
        ]
        assert worker.web.urls == [ROBOTS, URL]
        assert cluster.looks[ORIGIN] == 1

    run(job)


def test_what_is_forbidden_ends_as_excluded(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        await worker.run()
        outcome = await worker.run(f"{ORIGIN}/private/x", errback="sorry")
        assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "robots")
        assert outcome.excluded
        assert not outcome.cancelled
        assert outcome.detail == f"{ROBOTS} forbids {ORIGIN}/private/x to crawlframe"
        assert items(outcome) == [{"reason": "robots", "url": f"{ORIGIN}/private/x"}]
        assert worker.web.urls == [ROBOTS]
        assert len(worker.freed) == 1

    run(job)


def test_a_spider_that_ignores_it_asks_nothing(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster, Rude)
        outcome = await worker.run(f"{ORIGIN}/private")
        assert outcome.verdict is Verdict.DONE
        assert items(outcome)[0]["sitemaps"] == []
        assert not cluster.looks

    run(job)


def test_the_file_is_read_once_by_the_cluster(cluster: Cluster) -> None:
    async def job() -> None:
        one, other = Worker(cluster), Worker(cluster)
        one.web.gate.clear()
        reading = [asyncio.create_task(one.run(f"{URL}{n}")) for n in range(3)]
        await asyncio.sleep(0.01)
        waits = await other.run()
        assert (waits.verdict, waits.delay) == (Verdict.DEFER, 250)
        one.web.gate.set()
        assert {(await task).verdict for task in reading} == {Verdict.RELEASE}
        assert (await other.run()).verdict is Verdict.DONE
        assert (one.web.urls, other.web.urls) == ([ROBOTS], [URL])

    run(job)


def test_a_worker_that_died_is_followed_by_another(cluster: Cluster) -> None:
    async def job() -> None:
        await cluster.turn(ORIGIN)
        worker = Worker(cluster)
        assert (await worker.run()).verdict is Verdict.DEFER
        cluster.now += 40
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert worker.web.urls == [ROBOTS]

    run(job)


def test_requests_wait_in_the_frontier_while_the_server_fails(cluster: Cluster) -> None:
    async def job() -> None:
        one, other = Worker(cluster), Worker(cluster)
        one.web.pages[ROBOTS] = (503, {})
        for worker in (one, other):  # the other one knows it from the database
            assert (await worker.run()).verdict is Verdict.RELEASE
            assert cluster.held.pop() == ("a.example", 60.0)
        assert (one.web.urls, other.web.urls) == ([ROBOTS], [])
        cluster.now += 60
        other.clock += 60
        assert (await other.run()).verdict is Verdict.RELEASE
        assert cluster.held == []
        assert (await other.run()).verdict is Verdict.DONE
        assert (await one.run()).verdict is Verdict.DONE

    run(job)


def test_a_request_that_the_frontier_does_not_hold_is_put_off(cluster: Cluster) -> None:
    """An older version has opened its task: it would be claimed again and again."""

    async def job() -> None:
        worker = Worker(cluster)
        worker.web.pages[ROBOTS] = (503, {})
        first, again = await worker.run(), await worker.run()
        assert (first.verdict, again.verdict) == (Verdict.RELEASE, Verdict.DEFER)
        assert again.delay == 60_000
        assert (await worker.run(f"{URL}/2")).verdict is Verdict.RELEASE, "another request"

    run(job)


@pytest.mark.parametrize(
    ("error", "verdict"), [(ConnectError("no"), Verdict.RETRY), (TlsError("no"), Verdict.ERROR)]
)
def test_where_nothing_answers_a_request_uses_its_tries(
    cluster: Cluster, error: FetchError, verdict: Verdict
) -> None:
    """The page could not be fetched either; it would wait for ever."""

    async def job() -> None:
        worker = Worker(cluster)
        worker.web.pages[ROBOTS] = error
        for _ in range(2):
            outcome = await worker.run()
            assert (outcome.verdict, outcome.reason) == (verdict, error.reason)
            assert not outcome.excluded
            if verdict is Verdict.RETRY:
                assert outcome.delay >= 2000, "not before the file is asked for again"
        assert worker.web.urls == [ROBOTS]
        assert cluster.held == []
        last = await worker.task.run(Request(URL), attempts=2)
        assert (last.verdict, last.reason) == (Verdict.ERROR, error.reason)

    run(job)


def test_an_address_that_may_not_be_asked_is_the_requests_error(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        worker.web.pages[ROBOTS] = PrivateAddress("10.0.0.1")
        for _ in range(2):
            outcome = await worker.run()
            assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "private_address")
        assert cluster.states[ORIGIN].status is Status.PENDING
        assert cluster.leases == {}

    run(job)


@pytest.mark.parametrize(("asked", "kept"), [(7, 7), (90, 60)])
def test_a_crawl_delay_is_told_to_the_frontier(cluster: Cluster, asked: int, kept: int) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        worker.web.pages[ROBOTS] = f"User-agent: crawlframe\nCrawl-delay: {asked}\n"
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert cluster.gates["a.example"][1] == kept
        assert items(await worker.run())[0]["delay"] == asked
        other = Worker(cluster)
        assert (await other.run()).verdict is Verdict.DONE, "the frontier knew the delay"
        cluster.gates.clear()  # Redis was lost: the request was claimed without the delay
        late = Worker(cluster)
        assert (await late.run()).verdict is Verdict.RELEASE
        assert (await late.run()).verdict is Verdict.DONE
        assert late.web.urls == [URL]

    run(job)


def test_it_is_read_again_after_a_day(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        await worker.run()
        cluster.now += 86_399
        worker.clock += 86_399
        assert (await worker.run()).verdict is Verdict.DONE
        cluster.now += 1
        worker.clock += 1
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert worker.web.urls.count(ROBOTS) == 2

    run(job)


def test_a_worker_looks_at_the_database_again(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        await worker.run()
        worker.clock += RECHECK - 1
        await worker.run()
        assert cluster.looks[ORIGIN] == 1
        worker.clock += 1
        await worker.run()
        assert cluster.looks[ORIGIN] == 2
        worker.guard.forget_before(7)
        del cluster.states[ORIGIN]
        assert (await worker.run()).verdict is Verdict.RELEASE
        worker.guard.forget_before(7)
        worker.guard.forget_before(None)  # Redis is away
        assert (await worker.run()).verdict is Verdict.DONE
        assert cluster.looks[ORIGIN] == 3

    run(job)


def test_each_user_agent_has_its_own_rules(cluster: Cluster) -> None:
    async def job() -> None:
        text = "User-agent: mybot\nDisallow: /page\nUser-agent: *\nDisallow:\n"
        worker = Worker(cluster)
        worker.web.pages[ROBOTS] = text
        await worker.run()
        assert (await worker.run()).verdict is Verdict.DONE
        for name in ("User-Agent", "user-agent"):
            headers = {name: "MyBot/2 (+https://example.org)"}
            assert (await worker.run(headers=headers)).reason == "robots"

        class Named(Polite):
            name = "named"
            settings: ClassVar[dict[str, Any]] = {"user_agent": "mybot"}

        other = Worker(cluster, Named)
        assert (await other.run()).reason == "robots"
        assert other.web.urls == []

        class First(Polite):
            name = "first"
            settings: ClassVar[dict[str, Any]] = {"headers": {"USER-AGENT": "mybot"}}

        third = Worker(Cluster(), First)
        await third.run()
        assert third.web.asked[0].headers == {"User-Agent": "mybot"}

    run(job)


def test_what_a_middleware_changed_is_checked(cluster: Cluster) -> None:
    seen: list[str] = []

    class Detour(Middleware):
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            request.url = f"{ORIGIN}/private/detour"
            try:
                return await call_next(request)
            except Exception as error:
                seen.append(type(error).__name__)
                raise

    class Changing(Polite):
        name = "changing"
        middlewares = (Detour,)

    async def job() -> None:
        worker = Worker(cluster, Changing)
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert seen == [], "a wait is no error"
        outcome = await worker.run()
        assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "robots")
        assert seen == ["RobotsForbidden"]
        assert worker.web.urls == [ROBOTS]

    run(job)


def test_an_author_cannot_use_the_reason(cluster: Cluster) -> None:
    class Mine(FetchError):
        reason = "robots"
        retryable = False

    class Refusing(Middleware):
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            raise Mine("of a middleware")

    class Own(Polite):
        name = "own"
        middlewares = (Refusing,)

    async def job() -> None:
        outcome = await Worker(cluster, Own).run()
        assert (outcome.verdict, outcome.reason, outcome.excluded) == (
            Verdict.ERROR,
            "fetch",
            False,
        )

    run(job)


def test_the_hop_of_a_redirect_is_checked(cluster: Cluster) -> None:
    """Each URL that is sent is; a hop in the same claim that must wait puts the request off."""

    class Hops(Web):
        async def fetch(
            self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
        ) -> Response:
            response = await super().fetch(request, settings, context)
            target = response.headers.get("Location")
            if target is None or context.check is None:
                return response
            return await self.fetch(Request(target), settings, context)

    async def job() -> None:
        worker = Worker(cluster)
        hops = Hops()
        worker.guard.files._downloader = hops
        of: Any = worker.task.runner._fetching._stages
        of.__self__._download = partial(download, hops)
        hops.pages[URL] = (302, {"Location": "http://b.example/x"})
        hops.pages["http://b.example/robots.txt"] = "User-agent: *\nDisallow: /\n"
        await worker.run()
        waits = await worker.run()
        assert (waits.verdict, waits.delay) == (Verdict.DEFER, 250)
        assert (await worker.run()).reason == "robots"
        assert "http://b.example/x" not in hops.urls

    run(job)


def test_the_cache_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlframe.node.worker.robots.guard.MAX_CACHED", 3)
    assert MAX_CACHED > 3

    async def job() -> None:
        worker = Worker(cluster)
        for n in range(5):
            await worker.run(f"http://h{n}.example/")
        assert len(worker.guard._kept) == 3
        long = f"http://{'x' * 300}.example/"
        assert (await worker.run(long)).verdict is Verdict.DONE, "no such host exists"

    run(job)


def test_a_large_file_is_parsed_in_a_thread(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        worker.web.pages[ROBOTS] = RULES + "#" * (64 << 10) + "\n"
        await worker.run()
        assert (await worker.run(f"{ORIGIN}/private")).reason == "robots"

    run(job)


# -- tdmrep.json, for spiders with a purpose -------------------------------------------------------

TDM = f"{ORIGIN}/.well-known/tdmrep.json"


class Trainer(Polite):
    name = "trainer"
    settings: ClassVar[dict[str, Any]] = {"purpose": "ai-train"}


def test_a_spider_with_a_purpose_asks_for_reservations(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster, Trainer)
        worker.web.pages[TDM] = '[{"location": "/page", "tdm-reservation": 1}]'
        for asked in ([ROBOTS], [ROBOTS, TDM]):
            outcome = await worker.run()
            assert (outcome.verdict, outcome.attempts) == (Verdict.RELEASE, 0)
            assert worker.web.urls == asked
        denied = await worker.run()
        assert (denied.reason, denied.excluded) == ("usage", True)
        assert denied.fetch.usage is not None
        assert denied.fetch.usage["said"] == [["tdmrep.json", "1"]]
        assert (await worker.run(f"{ORIGIN}/free")).verdict is Verdict.DONE
        other = Worker(cluster, Trainer)
        assert (await other.run()).reason == "usage"
        assert TDM not in other.web.urls, "it is read once by the cluster"

    run(job)


def test_a_spider_without_a_purpose_does_not(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster)
        await worker.run()
        assert (await worker.run()).verdict is Verdict.DONE
        assert worker.web.urls == [ROBOTS, URL]

    run(job)


def test_reservations_that_cannot_be_read_do_not_hold_a_page_up(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster, Trainer)
        worker.web.pages[TDM] = ConnectError("refused")
        await worker.run()
        await worker.run()
        assert (await worker.run()).verdict is Verdict.DONE

    run(job)


def test_while_another_worker_reads_them_a_page_waits(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster, Trainer)
        await worker.run()
        cluster.leases[TDM] = cluster.now + 40
        assert (await worker.run()).verdict is Verdict.DEFER
        cluster.now += 41
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert (await worker.run()).verdict is Verdict.DONE

    run(job)


def test_reservations_that_were_forgotten_are_read_again(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster, Trainer)
        worker.web.pages[TDM] = '[{"location": "/", "tdm-reservation": 1}]'
        for _ in range(3):
            outcome = await worker.run()
        assert outcome.reason == "usage"
        worker.web.pages[TDM] = "[]"
        del cluster.states[TDM]
        assert (await worker.run()).reason == "usage"
        worker.guard.forget_before(7)
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert (await worker.run()).verdict is Verdict.DONE

    run(job)


def test_a_turn_ends_where_no_request_may_be_sent(cluster: Cluster) -> None:
    async def job() -> None:
        worker = Worker(cluster, Trainer)
        await worker.run()
        worker.web.pages[TDM] = PrivateAddress("10.0.0.1")
        assert (await worker.run()).reason == "private_address"
        assert TDM not in cluster.leases

    run(job)


@pytest.mark.parametrize("tls", [{"*": {"verify": False}}, {}])
def test_the_file_is_read_with_the_certificates_of_the_spider(
    cluster: Cluster, tls: dict[str, Any]
) -> None:
    class Trusting(Spider):
        name = "trusting"
        settings: ClassVar[dict[str, Any]] = {"retries": 0, "tls": tls}

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"size": len(response.body)}

    async def job(url: str) -> list[Outcome]:
        web = Downloader(HERE)
        task = Tasks(Trusting, web, robots=RobotsGuard(HERE, web, cluster))
        try:
            return [await task.run(Request(url)) for _ in range(2)]
        finally:
            await web.close()

    with HostileServer() as server:
        first, second = asyncio.run(job(f"{server.tls_url}/"))
    assert first.verdict is not Verdict.DONE
    assert (second.verdict is Verdict.DONE) == bool(tls)
    assert server.seen["/robots.txt"] == (1 if tls else 0)
