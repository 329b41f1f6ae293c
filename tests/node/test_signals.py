"""Signals: evidence of a fetch and its rate headers about a host; and refused requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

import pytest
from multidict import CIMultiDict

from crawlframe import CallNext, FetchError, Request, Response, Spider
from crawlframe.errors import (
    BadUrl,
    BodyTooLarge,
    ConnectError,
    ConnectionLost,
    DnsError,
    FetchTimeout,
    TlsError,
)
from crawlframe.frontier.client.records import (
    ANSWERED,
    BLOCKED,
    NO_SIGNAL,
    QUOTA,
    REFUSED,
    UNREACHABLE,
    Signal,
)
from crawlframe.node.worker.verdict.backoff import retry_after
from crawlframe.node.worker.verdict.signals import REFUSALS, Quota, quota_of
from crawlframe.run.outcome import Outcome, Verdict
from tests.node.runner import Ready, Tasks

URL = "http://h.example/"
YEAR = 366 * 24 * 3_600_000  # ms


def left(requests: int, seconds: int) -> dict[str, str]:
    """The headers of an API that allows so many requests."""
    return {"X-RateLimit-Remaining": str(requests), "X-RateLimit-Reset": str(seconds)}


class Plain(Spider):
    name = "plain"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"status": response.status}

    def failed(self, error: FetchError) -> Iterator[Any]:
        yield {"reason": error.reason}


class Careful(Plain):
    name = "careful"

    def is_blocked(self, response: Response) -> bool:
        return b"robot" in response.body


class Clumsy(Plain):
    name = "clumsy"

    def is_blocked(self, response: Response) -> bool:
        raise RuntimeError("no idea")


def run(
    downloader: Ready,
    spider: type[Spider] = Plain,
    request: Request | None = None,
    *,
    refusals: int = 0,
) -> tuple[Outcome, list[Signal]]:
    """The outcome of a request, and the signals that were reported at the end of its fetch."""
    said: list[Signal] = []
    clock = iter(range(1000))
    tasks = Tasks(
        spider,
        downloader,
        fetched=lambda claimed, signal: said.append(signal),
        clock=lambda: float(next(clock)),
    )
    outcome = asyncio.run(tasks.run(request or Request(URL), refusals=refusals))
    return outcome, said


@pytest.mark.parametrize(
    ("downloader", "signal"),
    [
        (Ready(200), Signal(ANSWERED, 1000)),
        (Ready(404), Signal(ANSWERED, 1000)),
        (Ready(500), Signal(ANSWERED, -1)),
        (Ready(403), Signal(BLOCKED)),
        (Ready(429), Signal(REFUSED, -1)),
        (Ready(503, headers={"Retry-After": "7"}), Signal(REFUSED, 7000)),
        (Ready(200, headers=left(100, 60)), Signal(ANSWERED, 1000)),
        (Ready(200, headers=left(5, 60)), Signal(QUOTA, 10_000)),
        (Ready(200, headers=left(0, 60)), Signal(QUOTA, 60_500)),
        (Ready(404, headers=left(0, 60)), Signal(QUOTA, 60_500)),
        (Ready(200, headers=left(0, 0)), Signal(ANSWERED, 1000)),
        (Ready(429, headers=left(0, 60)), Signal(REFUSED, 60_000)),
        (Ready(429, headers=left(3, 60)), Signal(REFUSED, -1)),
        (Ready(403, headers=left(0, 60)), Signal(REFUSED, 60_000)),
        (Ready(403, headers=left(3, 60)), Signal(BLOCKED)),
        (Ready(429, headers={"Retry-After": "7"} | left(0, 60)), Signal(REFUSED, 7000)),
        (Ready(error=ConnectError("refused")), Signal(UNREACHABLE)),
        (Ready(error=ConnectionLost("gone")), Signal(UNREACHABLE)),
        (Ready(error=DnsError("who?")), Signal(UNREACHABLE)),
        (Ready(error=FetchTimeout("slow")), Signal(UNREACHABLE)),
        (Ready(error=BodyTooLarge("33 MiB")), Signal(ANSWERED, -1)),
        (Ready(error=TlsError("expired")), Signal(ANSWERED, -1)),
        (Ready(error=BadUrl("what?")), NO_SIGNAL),
    ],
)
def test_what_a_fetch_says(downloader: Ready, signal: Signal) -> None:
    outcome, said = run(downloader)
    assert said == [signal]
    assert outcome.fetch.signal == signal


@pytest.mark.parametrize("ms", [-1000, 0, 3, 7.7, 12.4])
def test_a_request_that_was_claimed_ahead_is_not_sent_before_its_time(ms: float) -> None:
    times: list[float] = []

    class Timed(Ready):
        async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
            await others[1].send_time.wait()
            times.append(time.monotonic())
            return await super().fetch(request, *others, **more)

    said: list[Signal] = []
    due = time.monotonic() + ms / 1000
    tasks = Tasks(
        Plain,
        Timed(),
        fetched=lambda claimed, signal: said.append(signal),
        clock=lambda: float(time.monotonic() >= due),
    )
    outcome = asyncio.run(tasks.run(Request(URL), due=due))
    assert times[0] >= due
    assert said[0].ms == outcome.fetch.fetch_ms == 0  # the host took no time to answer


def test_what_a_middleware_answers_says_nothing() -> None:
    class Stamp:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return Response(request.url, 429, {}, b"", request)

    spider = type("Own", (Plain,), {"middlewares": [Stamp], "name": "own"})
    outcome, said = run(Ready(), spider)
    assert said == [NO_SIGNAL]
    assert outcome.verdict is Verdict.RETRY  # it is no refusal of the host


@pytest.mark.parametrize("status", [429, 503])
def test_a_refused_request_goes_back_without_a_used_try(status: int) -> None:
    outcome, _ = run(Ready(status), request=Request(URL, retries=0))
    assert (outcome.verdict, outcome.reason) == (Verdict.RELEASE, f"http_{status}")


def test_a_request_that_is_always_refused_ends() -> None:
    request = Request(URL, errback="failed")
    assert run(Ready(429), request=request, refusals=REFUSALS - 2)[0].verdict is Verdict.RELEASE
    outcome, _ = run(Ready(429), request=request, refusals=REFUSALS - 1)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "http_429")
    assert outcome.results.items == [b'{"reason":"http_429"}']


def test_a_spider_that_handles_the_status_gets_the_response() -> None:
    outcome, said = run(Ready(429), request=Request(URL, handle=[429]))
    assert (outcome.verdict, outcome.results.items) == (Verdict.DONE, [b'{"status":429}'])
    assert said == [Signal(REFUSED, -1)]


def test_a_status_that_the_spider_handles_is_no_block() -> None:
    outcome, said = run(Ready(403), request=Request(URL, handle=[403]))
    assert (outcome.verdict, said) == (Verdict.DONE, [Signal(ANSWERED, 1000)])


def test_a_page_that_the_spider_calls_a_block_is_tried_again() -> None:
    downloader = Ready(200, body=b"are you a robot?")
    outcome, said = run(downloader, Careful)
    assert (outcome.verdict, outcome.reason) == (Verdict.RETRY, "blocked")
    assert (outcome.fetch.status, said) == (200, [Signal(BLOCKED)])
    outcome, _ = run(downloader, Careful, Request(URL, retries=0, errback="failed"))
    assert (outcome.verdict, outcome.results.items) == (Verdict.ERROR, [b'{"reason":"blocked"}'])
    assert run(Ready(403), Careful)[1] == [Signal(ANSWERED, 1000)]  # it decides alone


def test_a_middleware_sees_a_block_and_may_go_another_way() -> None:
    class Again:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            try:
                return await call_next(request)
            except FetchError as error:
                return Response(request.url, 200, {}, error.reason.encode(), request)

    spider = type("Own", (Careful,), {"middlewares": [Again], "name": "own"})
    outcome, said = run(Ready(200, body=b"robot"), spider)
    assert (outcome.verdict, said) == (Verdict.DONE, [Signal(BLOCKED)])


def test_an_is_blocked_that_fails_is_an_error_of_the_spider() -> None:
    outcome, said = run(Ready(200), Clumsy)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert "RuntimeError: no idea" in outcome.detail
    assert "in is_blocked" in outcome.detail
    assert said == [Signal(ANSWERED, 1000)]


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("", None),
        ("soon", None),
        ("-3", None),
        ("0", 0),
        ("7", 7000),
        ("86400", 86_400_000),
        ("9" * 30, YEAR),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("\u0667", None),  # a digit, but none of ASCII
    ],
)
def test_retry_after(value: str, ms: int | None) -> None:
    assert retry_after(Response(URL, 429, {"Retry-After": value}, b"", Request(URL))) == ms


def test_retry_after_as_a_date() -> None:
    date = formatdate(time.time() + 3600, usegmt=True)
    asked = retry_after(Response(URL, 429, {"Retry-After": date}, b"", Request(URL)))
    assert asked is not None
    assert 3_598_000 <= asked <= 3_600_000


# -- rate headers ----------------------------------------------------------------------------------


def quota(*headers: tuple[str, str]) -> Quota | None:
    request = Request("http://api.example/")
    return quota_of(Response(request.url, 200, CIMultiDict(headers), b"", request))


def old(remaining: str, reset: str, prefix: str = "X-RateLimit") -> Quota | None:
    return quota((f"{prefix}-Remaining", remaining), (f"{prefix}-Reset", reset))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"default";r=50;t=30', (50, 30)),
        ('"default"; r=0 ; t=7', (0, 7)),
        ('"hour";r=900;t=3000, "minute";r=1;t=20', (1, 20)),
        ("limit=100, remaining=50, reset=5", (50, 5)),
        ('"default";r=50', None),
        ('"day";r=0;t=900000', None),
        ("nonsense", None),
    ],
)
def test_the_header_of_the_draft(value: str, expected: tuple[int, float] | None) -> None:
    assert quota(("RateLimit", value)) == expected


@pytest.mark.parametrize("prefix", ["RateLimit", "X-RateLimit", "X-Rate-Limit", "x-ratelimit"])
def test_the_pairs(prefix: str) -> None:
    assert old("3", "60", prefix) == (3, 60)


def test_a_reset_may_be_a_time() -> None:
    soon = time.time() + 90
    forms = (
        str(round(soon)),
        str(round(1000 * soon)),
        formatdate(soon, usegmt=True),
        datetime.fromtimestamp(soon, UTC).isoformat(),
        datetime.fromtimestamp(soon, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    for text in forms:
        found = old("3", text)
        assert found is not None, text
        assert found.reset == pytest.approx(90, abs=5), text
    past = old("3", str(round(time.time() - 90)))
    assert past == (3, 0)


@pytest.mark.parametrize(
    ("remaining", "reset"),
    [
        ("", "60"),
        ("many", "60"),
        ("-1", "60"),
        ("3", ""),
        ("3", "soon"),
        ("3", "nan"),
        ("0", "1e9"),
    ],
)
def test_what_cannot_be_read_says_nothing(remaining: str, reset: str) -> None:
    found = old(remaining, reset)
    assert found is None or (reset == "1e9" and found.reset == 0)
    assert quota(("X-RateLimit-Remaining", "0")) is None


def test_the_one_that_allows_the_least_counts() -> None:
    found = quota(
        ("RateLimit", '"default";r=50;t=30'),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "20"),
    )
    assert found == (0, 20)
    assert Quota(3, 20).gap == 5
