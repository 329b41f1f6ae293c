"""The outcome of one request: finished, an error, delayed for a retry, or parked. Nothing is
fetched: the downloader has the responses already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import (
    MAX_AFTER,
    BadRequest,
    BodyTooLarge,
    ConnectionLost,
    FetchError,
    FetchTimeout,
    TooManyRedirects,
)
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.frontier.client.records import TaskView
from crawlframe.node.running_marks import LOOP
from crawlframe.node.worker.verdict.backoff import BACKOFF_CAP
from crawlframe.node.worker.verdict.failures import MAX_DETAIL
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
from tests.node.runner import Tasks

URL = "http://a.example/"
TOOK = 0.25  # seconds of each fetch, by the clock of the tests


class Shop(Spider):
    name = "shop"
    allowed_domains = ("a.example",)
    settings: ClassVar[dict[str, Any]] = {"retries": 2, "handle_statuses": [404]}

    def start(self, first: str = URL) -> Iterator[Request]:
        yield Request(first)

    def parse(self, response: Response, extra: int = 0) -> Iterator[Any]:
        yield {"status": response.status, "extra": extra}
        yield Request(f"{URL}next")
        yield Request("http://elsewhere.example/")

    async def later(self, response: Response) -> AsyncIterator[dict[str, int]]:
        await asyncio.sleep(0)
        yield {"size": len(response.body)}

    async def waits(self, response: Response) -> None:
        await asyncio.Event().wait()

    def fails(self, response: Response) -> Iterator[dict[str, int]]:
        yield {"before": 1}
        raise ValueError("as authors do" + "!" * 2 * MAX_DETAIL)

    def leaves(self, response: Response) -> None:
        raise SystemExit(3)

    def sorry(self, error: FetchError) -> Iterator[dict[str, str]]:
        yield {"reason": error.reason, "url": error.request.url}

    def sorrier(self, error: FetchError) -> None:
        raise KeyError("no")


class Picky(Shop):
    name = "picky"
    settings: ClassVar[dict[str, Any]] = {"retries": 0}

    def __init__(self) -> None:
        raise RuntimeError("no shop today")


class Fetched(Downloader):
    """A downloader that answers every request with ``answer``, set by the test."""

    answer: int | Exception = 200
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, pass_by: Callable[[float], None]) -> None:
        super().__init__(Settings())
        self._pass_by = pass_by
        self.fetched: list[str] = []

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        account = context.account
        assert account is not None
        self.fetched.append(request.url)
        self._pass_by(TOOK)
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        account.settle(0)
        return Response(request.url, self.answer, self.headers, b"<p>", request)


class Worker(Tasks):
    """A runner with one task, and all that it asks and says."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.downloader = Fetched(self._pass_by)
        self.loads: list[str] = []
        self.over: list[bytes] = []  # fetches that are over
        super().__init__(
            Shop,
            self.downloader,
            {},
            Picky,
            settings=Settings(max_deliveries=5),
            version="v1",
            fetched=lambda claimed, signal: self.over.append(claimed.rid),
            clock=lambda: self.now,
        )

    def _pass_by(self, seconds: float) -> None:
        self.now += seconds

    async def load_task(self, task: int) -> TaskSpec | None:
        self.loads.append("task")
        return await super().load_task(task)

    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        self.loads.append("cookies")
        return await super().load_cookies(task)


def run(
    answer: int | Exception = 200, request: Request | None = None, *, attempts: int = 0
) -> Outcome:
    """The outcome of one request with this answer."""

    async def one() -> Outcome:
        worker = Worker()
        worker.downloader.answer = answer
        return await worker.run(request or Request(URL), attempts=attempts)

    return asyncio.run(one())


# -- finished -------------------------------------------------------------------------------------


def test_a_page_ends_with_what_its_callback_yields() -> None:
    outcome = run(request=Request(URL, cb_kwargs={"extra": 1}, depth=3))
    assert (outcome.verdict, outcome.reason, outcome.detail) == (Verdict.DONE, "", "")
    assert outcome.results.items == [b'{"status":200,"extra":1}']
    assert len(outcome.results.follow_ups) == 1  # the other one leads elsewhere
    assert (outcome.url, outcome.depth, outcome.callback) == (URL, 3, "parse")
    assert (outcome.fetch.status, outcome.fetch.size, outcome.version) == (200, 3, "v1")
    assert outcome.fetch.fetch_ms == round(1000 * TOOK)


def test_asynchronous_callbacks() -> None:
    outcome = run(request=Request(URL, "later"))
    assert (outcome.verdict, outcome.results.items) == (Verdict.DONE, [b'{"size":3}'])


def test_the_root_request_runs_start_and_fetches_nothing() -> None:
    async def one() -> None:
        worker = Worker()
        worker.spec = TaskSpec(1, "shop", {"first": "http://a.example/first"}, 0)
        outcome = await worker.start()
        assert (outcome.verdict, len(outcome.results.follow_ups)) == (Verdict.DONE, 1)
        assert (worker.downloader.fetched, worker.over) == ([], [])

    asyncio.run(one())


def test_statuses_that_the_spider_handles_come_to_the_callback() -> None:
    outcome = run(404)
    assert (outcome.verdict, outcome.fetch.status) == (Verdict.DONE, 404)
    assert outcome.results.items == [b'{"status":404,"extra":0}']


def test_a_task_is_loaded_once_and_its_cookies_when_there_are_newer_ones() -> None:
    async def some() -> None:
        worker = Worker()
        await asyncio.gather(*(worker.run(Request(f"{URL}{n}")) for n in range(3)))
        assert worker.loads == ["task"]
        for version in (1, 1, 2):
            await worker.run(Request(URL), TaskView("running", version))
        assert worker.loads == ["task", "cookies", "cookies"]

    asyncio.run(some())


def test_who_is_running_is_marked() -> None:
    async def one() -> None:
        worker = Worker()
        outcome = await worker.run(Request(URL))
        one = [(LOOP, outcome.rid), (LOOP, b"")]
        decoded, started, called = one, one, one
        assert worker.marks == decoded + started + called

    asyncio.run(one())


def test_an_error_has_its_headers_and_a_good_page_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fetched, "headers", {"Server": "nginx"})
    assert run().fetch.exchange is None
    assert run(500).fetch.exchange is None  # it is tried again
    assert run(403).fetch.exchange == {"status": 403, "received": [["Server", "nginx"]]}
    failed = run(request=Request(URL, "fails")).fetch.exchange
    assert failed == {"status": 200, "received": [["Server", "nginx"]]}
    lost = TooManyRedirects("11")
    lost.sent = ("GET", URL, [("Accept", "*/*")])
    sorry = run(lost, Request(URL, errback="sorry"))
    assert sorry.verdict is Verdict.ERROR
    assert sorry.fetch.exchange == {"method": "GET", "url": URL, "sent": [["Accept", "*/*"]]}


# -- another try ----------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [500, ConnectionLost("gone"), FetchTimeout("slow")])
@pytest.mark.parametrize("attempts", [0, 1])
def test_what_may_pass_is_tried_again(answer: int | FetchError, attempts: int) -> None:
    outcome = run(answer, attempts=attempts)
    assert outcome.verdict is Verdict.RETRY
    assert outcome.reason == (answer.reason if isinstance(answer, FetchError) else "http_500")
    assert 500 * 2**attempts <= outcome.delay <= 1500 * 2**attempts
    assert outcome.fetch.fetch_ms == round(1000 * TOOK)


def test_the_last_try_ends_as_an_error() -> None:
    outcome = run(500, attempts=2)
    assert (outcome.verdict, outcome.reason, outcome.fetch.status) == (
        Verdict.ERROR,
        "http_500",
        500,
    )
    assert outcome.detail == f"{URL} answered 500"


@pytest.mark.parametrize("asked", [120, 10 * round(BACKOFF_CAP), 10 * MAX_AFTER])
def test_a_server_may_ask_for_patience(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    monkeypatch.setattr(Fetched, "headers", {"Retry-After": str(asked)})
    assert run(500).delay == 1000 * min(asked, MAX_AFTER)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (403, "http_403"),
        (TooManyRedirects("11 redirects"), "too_many_redirects"),
        (BodyTooLarge("33 MiB"), "too_large"),
    ],
)
def test_what_will_not_pass_is_an_error_at_once(answer: int | FetchError, reason: str) -> None:
    outcome = run(answer)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason)
    assert (outcome.results.items, outcome.results.follow_ups) == ([], [])


def test_the_end_of_each_fetch_is_reported() -> None:
    async def one(answer: int | FetchError) -> None:
        worker = Worker()
        worker.downloader.answer = answer
        outcome = await worker.run(Request(URL))
        assert worker.over == [outcome.rid]

    for answer in (200, 503, ConnectionLost("gone")):
        asyncio.run(one(answer))


def test_a_request_with_a_slow_callback_keeps_the_slot_of_its_host() -> None:
    async def one() -> None:
        worker = Worker()
        worker.runner.callbacks.expect(1, "parse", computes=False)
        outcome = await worker.run(Request(URL))
        assert (outcome.verdict, worker.over) == (Verdict.DONE, [])

    asyncio.run(one())


# -- errors ---------------------------------------------------------------------------------------


def test_an_errback_may_yield_and_it_is_an_error_all_the_same() -> None:
    outcome = run(403, Request(URL, errback="sorry"))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "http_403")
    assert outcome.results.items == [b'{"reason":"http_403","url":"http://a.example/"}']


@pytest.mark.parametrize(
    ("raised", "reason", "detail"),
    [
        (BadRequest("its cookies take 9000 bytes"), "bad_request", "its cookies take 9000 bytes"),
        (UnicodeEncodeError("ascii", "\xfc", 0, 1, "no"), "engine", "UnicodeEncodeError"),
        (KeyError("a defect"), "engine", "KeyError: 'a defect'"),
        (AssertionError(), "engine", "AssertionError"),
    ],
)
def test_what_a_fetch_should_not_raise_is_for_the_errback_too(
    raised: Exception, reason: str, detail: str
) -> None:
    outcome = run(raised, Request(URL, errback="sorry"))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason)
    assert outcome.results.items == [b'{"reason":"%s","url":"http://a.example/"}' % reason.encode()]
    assert detail in outcome.detail


def test_an_errback_that_fails() -> None:
    outcome = run(403, Request(URL, errback="sorrier"))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert "KeyError: 'no'" in outcome.detail


@pytest.mark.parametrize(("callback", "named"), [("fails", "ValueError"), ("leaves", "SystemExit")])
def test_a_callback_that_fails_leaves_nothing(callback: str, named: str) -> None:
    outcome = run(request=Request(URL, callback))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert (outcome.results.items, outcome.results.follow_ups) == ([], [])
    assert named in outcome.detail
    assert "worker/run_request.py" not in outcome.detail
    assert len(outcome.detail) <= MAX_DETAIL + 10


@pytest.mark.parametrize(
    ("deliveries", "kills", "poison"),
    [(5, 0, False), (6, 0, True), (1, 1, False), (2, 2, True)],
)
def test_poison_is_not_fetched(deliveries: int, kills: int, poison: bool) -> None:
    async def one() -> None:
        worker = Worker()
        outcome = await worker.run(Request(URL), deliveries=deliveries, kills=kills)
        assert (outcome.reason == "poison") == poison
        assert bool(worker.downloader.fetched) != poison

    asyncio.run(one())


def test_of_a_cancelled_task_nothing_is_fetched() -> None:
    async def one() -> None:
        worker = Worker()
        outcome = await worker.run(Request(URL), TaskView("cancelling", 0))
        assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "cancelled")
        assert outcome.cancelled
        assert worker.downloader.fetched == worker.loads == []

    asyncio.run(one())


def test_a_worker_that_ends_takes_its_requests_along() -> None:
    async def one() -> None:
        worker = Worker()
        task = asyncio.create_task(worker.run(Request(URL, "waits")))
        while (LOOP, b"") not in worker.marks[2:]:  # it has been called
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(one())


# -- parked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(URL, "nothing"), "spider 'shop' has no method 'nothing'"),
        (Request(URL, cb_kwargs={"more": 1}), "got an unexpected keyword argument 'more'"),
    ],
)
def test_what_does_not_fit_the_code_is_parked_before_the_fetch(
    request_: Request, reason: str
) -> None:
    async def one() -> None:
        worker = Worker()
        outcome = await worker.run(request_)
        assert (outcome.verdict, outcome.version) == (Verdict.PARK, "v1")
        assert reason in outcome.reason
        assert worker.downloader.fetched == []

    asyncio.run(one())


@pytest.mark.parametrize(
    ("spec", "reason", "version"),
    [
        (TaskSpec(1, "gone", {}, 0), "no spider 'gone'", "v1"),
        (TaskSpec(1, "shop", {"first": 7}, 0), "first", "v1"),
        (TaskSpec(1, "picky", {}, 0), "cannot be created: RuntimeError: no shop today", "v1"),
        (None, "task 1 is not in the database", ""),  # no other code would help
    ],
)
def test_a_task_that_cannot_be_made_is_parked_and_tried_again_with_the_next_request(
    spec: TaskSpec | None, reason: str, version: str
) -> None:
    async def some() -> None:
        worker = Worker()
        good, worker.spec = worker.spec, spec
        outcome = await worker.run(Request(URL))
        assert (outcome.verdict, outcome.version) == (Verdict.PARK, version)
        assert reason in outcome.reason
        worker.spec = good
        assert (await worker.run(Request(URL))).verdict is Verdict.DONE
        assert worker.loads == ["task", "task"]

    asyncio.run(some())
