"""Middlewares, follow and request options when a worker runs a request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import uvloop

from crawlframe import CallNext, FetchError, Request, Response, Retry, Spider, SyncCallNext
from crawlframe.errors import ConnectionLost
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.client.records import TaskView
from crawlframe.node.running_marks import LOOP
from crawlframe.request.request import make_rid
from crawlframe.run.outcome import Outcome, Verdict
from tests.fetch.conftest import Exchange, Site, _server, site
from tests.node.runner import HERE, Ready, Tasks

__all__ = ("_server", "site")

URL = "http://h.example/"


class Plain(Spider):
    name = "plain"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"status": response.status, "body": response.text}

    def failed(self, error: FetchError) -> Iterator[Any]:
        yield {"reason": error.reason}


def run(
    spider: type[Spider], downloader: Downloader, request: Request | None = None, attempts: int = 0
) -> Outcome:
    tasks = Tasks(spider, downloader)
    return asyncio.run(tasks.run(request or Request(URL), attempts=attempts))


def with_middlewares(*middlewares: Any) -> type[Plain]:
    return type("Own", (Plain,), {"middlewares": middlewares, "name": "own"})


class Stamp:
    """Answers without fetching."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return Response(request.url, 203, {}, b"made here", request)


def test_a_middleware_answers_without_fetching() -> None:
    downloader = Ready()
    outcome = run(with_middlewares(Stamp), downloader)
    assert outcome.results.items == [b'{"status":203,"body":"made here"}']
    assert (outcome.fetch.status, outcome.fetch.size, downloader.asked) == (203, 9, [])


def test_what_a_base_class_declares_is_inherited() -> None:
    class Team(Plain):
        middlewares: ClassVar[Any] = [Stamp]

    class Site(Team):
        name = "site"

    class Alone(Team):
        name = "alone"
        middlewares: ClassVar[Any] = []

    assert run(Site, Ready()).fetch.status == 203
    assert run(Alone, Ready()).fetch.status == 200


def test_a_class_is_made_once_for_all_tasks_of_a_spider() -> None:
    made: list[Any] = []

    class Counting:
        def __init__(self) -> None:
            made.append(self)

        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return await call_next(request)

    async def main() -> None:
        tasks = Tasks(with_middlewares(Counting), Ready())
        for tasks.task in (1, 2, 2):
            assert (await tasks.run(Request(URL))).verdict is Verdict.DONE

    asyncio.run(main())
    assert len(made) == 1


class Blocked:
    """Asks for a retry after a minute, or after the given seconds."""

    after = 60.0

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        await call_next(request)
        raise Retry("blocked", after=self.after)


def test_a_retry_waits_at_least_as_long() -> None:
    outcome = run(with_middlewares(Blocked), Ready())
    assert (outcome.verdict, outcome.reason) == (Verdict.RETRY, "blocked")
    assert outcome.delay == 60_000
    soon = type("Soon", (Blocked,), {"after": 0})
    assert 500 <= run(with_middlewares(soon), Ready()).delay <= 1500


def test_a_retry_counts_as_a_try() -> None:
    request = Request(URL, errback="failed")
    outcome = run(with_middlewares(Blocked), Ready(), request, attempts=2)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "blocked")
    assert outcome.results.items == [b'{"reason":"blocked"}']
    assert run(with_middlewares(Blocked), Ready(), request.replace(retries=3), 2).verdict == "retry"


@pytest.mark.parametrize(
    ("reason", "kept"),
    [("captcha", "captcha"), ("two\n words\0", "two words"), ("", "fetch"), ("cancelled", "fetch")],
)
def test_reasons_of_authors_are_words_for_the_ledger(reason: str, kept: str) -> None:
    class Judging:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            raise Retry(reason)

    outcome = run(with_middlewares(Judging), Ready(), attempts=9)
    assert (outcome.verdict, outcome.reason, outcome.cancelled) == (Verdict.ERROR, kept, False)


@pytest.mark.parametrize("after", [-1, 10**9, float("nan")])
def test_how_long_a_retry_may_wait(after: float) -> None:
    with pytest.raises(ValueError, match="after must be seconds from 0"):
        Retry("blocked", after=after)


class Broken:
    """Raises an error that is not one of fetches."""

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        response = await call_next(request)
        raise KeyError(f"token of {response.url}")


class BrokenInThread:
    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
        response = call_next(request)
        raise KeyError(f"token of {response.url}")


@pytest.mark.parametrize("kind", [Broken, BrokenInThread])
def test_an_error_is_reported_as_that_of_a_callback(kind: type) -> None:
    request = Request(URL, errback="failed")
    outcome = run(with_middlewares(kind, Passing), Ready(), request)
    assert (outcome.verdict, outcome.reason, outcome.results.items) == (
        Verdict.ERROR,
        "middleware",
        [],
    )
    first, frame, *others = outcome.detail.splitlines()
    assert first == f"middleware {kind.__qualname__}:"
    assert "test_middlewares.py" in frame
    assert "crawlframe/" not in outcome.detail
    assert others[-1] == f"KeyError: 'token of {URL}'"


class Passing:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        return await call_next(request)


def test_a_page_that_a_middleware_cannot_parse_is_named_so() -> None:
    class Deep:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            html = {"Content-Type": "text/html"}
            response = Response(request.url, 200, html, b"<i>" * 60_000, request)
            response.links()
            return response

    assert run(with_middlewares(Deep), Ready()).reason == "too_deep"


def test_one_that_cannot_be_made_parks_the_request() -> None:
    class Needy:
        def __init__(self) -> None:
            raise RuntimeError("no key")

        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            raise AssertionError

    outcome = run(with_middlewares(Needy), Ready())
    assert outcome.verdict is Verdict.PARK
    assert "RuntimeError: no key" in outcome.reason


def test_middlewares_of_an_object_are_refused() -> None:
    class Late(Plain):
        def __init__(self) -> None:
            self.middlewares = [Stamp]  # type: ignore[misc]

    outcome = run(Late, Ready())
    assert outcome.verdict is Verdict.PARK
    assert "middlewares belong to the class" in outcome.reason


def test_a_worker_marks_whose_middleware_runs() -> None:
    seen: list[Any] = []

    class Looking:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            seen.append(tasks.marks[-1])
            return await call_next(request)

    class LookingInThread:
        def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
            seen.append(tasks.marks[-1])
            response = call_next(request)
            seen.append(tasks.marks[-1])
            return response

    request = Request(URL)
    rid = make_rid(1, request.fingerprint())
    tasks = Tasks(with_middlewares(Looking, LookingInThread), Ready())
    assert asyncio.run(tasks.run(request)).verdict is Verdict.DONE
    assert seen[0] == (LOOP, rid)
    slots = {slot for slot, marked in seen[1:] if marked == rid}
    assert len(seen) == 3
    assert slots
    assert LOOP not in slots
    left: dict[int, bytes] = dict(tasks.marks)
    assert set(left.values()) == {b""}


def test_start_goes_through_no_middleware() -> None:
    class Starting(Plain):
        middlewares: ClassVar[Any] = (Broken,)

        def start(self) -> Iterator[Request]:
            yield Request(URL)

    outcome = asyncio.run(Tasks(Starting, Ready()).start())
    assert (outcome.verdict, len(outcome.results.follow_ups)) == (Verdict.DONE, 1)


# -- follow ---------------------------------------------------------------------------------------


class Following(Plain):
    """Labels outgoing requests, drops private pages and redirects old ones to a mirror."""

    name = "following"
    allowed_domains = ("h.example",)

    def start(self) -> Iterator[Request]:
        yield Request(f"{URL}first")
        yield Request(f"{URL}private/first")

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(f"{URL}next")
        yield Request(f"{URL}private/next")
        yield Request(f"{URL}old")
        yield Request(f"{URL}new")
        yield Request(f"{URL}away")

    def failed(self, error: FetchError) -> Iterator[Any]:
        yield Request(f"{URL}instead")

    def follow(self, request: Request, response: Response | None) -> Request | None:
        if "private" in request.url:
            return None
        if request.url.endswith("old"):
            return Request(f"{URL}new")
        if request.url.endswith("away"):
            return Request("http://other.example/")
        request.meta["from"] = response.url if response else None
        request.meta["depth"] = request.depth
        return request


def followed(outcome: Outcome) -> list[tuple[str, Any, int]]:
    requests = [Request.decode(admission.record) for admission in outcome.results.follow_ups]
    return [(request.url, request.meta.get("from", "-"), request.depth) for request in requests]


def test_follow_sees_what_start_yields() -> None:
    outcome = asyncio.run(Tasks(Following, Ready()).start())
    assert followed(outcome) == [(f"{URL}first", None, 0)]


def test_follow_changes_drops_and_replaces_what_a_callback_yields() -> None:
    outcome = run(Following, Ready())
    assert followed(outcome) == [(f"{URL}next", URL, 1), (f"{URL}new", "-", 1)]
    assert outcome.results.duplicates == 1  # new, a second time: by its fingerprint after follow
    record = Request.decode(outcome.results.follow_ups[0].record)
    assert record.meta["depth"] == 1


def test_follow_sees_what_an_errback_yields() -> None:
    request = Request(URL, errback="failed")
    assert followed(run(Following, Ready(404), request)) == [(f"{URL}instead", URL, 1)]
    lost = Ready(error=ConnectionLost("gone"))
    assert followed(run(Following, lost, request, attempts=9)) == [(f"{URL}instead", None, 1)]


@pytest.mark.parametrize("returned", [URL, True, {"url": URL}])
def test_follow_returns_a_request_or_none(returned: Any) -> None:
    class Wrong(Following):
        def follow(self, request: Request, response: Response | None) -> Any:
            return returned

    outcome = run(Wrong, Ready())
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert "follow returned" in outcome.detail


# -- options of a request -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings", "status", "verdict"),
    [
        ({}, {}, 404, Verdict.ERROR),
        ({"handle": [404]}, {}, 404, Verdict.DONE),
        ({"handle": []}, {"handle_statuses": (404,)}, 404, Verdict.ERROR),
        ({}, {"handle_statuses": (404,)}, 404, Verdict.DONE),
        ({"handle": range(500, 600)}, {}, 503, Verdict.DONE),
        ({"redirects": 0}, {}, 302, Verdict.DONE),
        ({"redirects": 0}, {}, 404, Verdict.ERROR),
        ({"redirects": 1}, {}, 302, Verdict.ERROR),
        ({}, {}, 500, Verdict.RETRY),
        ({"retries": 0}, {}, 500, Verdict.ERROR),
        ({"retries": 1}, {"retries": 0}, 500, Verdict.RETRY),
        ({"retries": 0}, {}, 503, Verdict.RELEASE),
        ({"retries": 0}, {}, 429, Verdict.RELEASE),
    ],
)
def test_statuses_and_retries(
    options: dict[str, Any], settings: dict[str, Any], status: int, verdict: Verdict
) -> None:
    spider = type("Set", (Plain,), {"settings": settings})
    assert run(spider, Ready(status), Request(URL, **options)).verdict is verdict


def test_a_middleware_may_stop_redirects() -> None:
    class Stopping:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return await call_next(request.replace(redirects=0))

    assert run(with_middlewares(Stopping), Ready(302)).verdict is Verdict.DONE


# -- with a real server ---------------------------------------------------------------------------


class Signing:
    """Signs requests, and logs in again when the server does not know the token."""

    def __init__(self) -> None:
        self.token = "old"

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        response = await call_next(self._signed(request))
        if response.status == 401:
            self.token = "new"
            response = await call_next(self._signed(request))
        return response

    def _signed(self, request: Request) -> Request:
        return request.replace(headers={**request.headers, "Token": self.token})


class SigningInThread(Signing):
    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:  # type: ignore[override]
        response = call_next(self._signed(request))
        if response.status == 401:
            self.token = "new"
            assert threading.current_thread() is not threading.main_thread()
            response = call_next(self._signed(request))
        return response


@pytest.mark.parametrize("downloader", ["curl", "requests"])
@pytest.mark.parametrize("kind", [Signing, SigningInThread])
def test_a_middleware_signs_in_again(site: Site, kind: type[Signing], downloader: str) -> None:
    @site.on("/")
    async def guarded(exchange: Exchange) -> bool:
        status = 200 if exchange.header("Token") == "new" else 401
        await exchange.send(b"HTTP/1.1 %d Yes\r\nContent-Length: 2\r\n\r\nhi" % status)
        return True

    async def main() -> list[Outcome]:
        client = Downloader(HERE)
        tasks = Tasks(with_middlewares(kind), client)
        try:
            urls = [f"{site.url}/?{n}" for n in range(2)]
            return [await tasks.run(Request(url, downloader=downloader)) for url in urls]
        finally:
            await client.close()

    outcomes = uvloop.run(main())
    assert [outcome.results.items for outcome in outcomes] == [[b'{"status":200,"body":"hi"}']] * 2
    assert [exchange.header("Token") for exchange in site.seen] == ["old", "new", "new"]


def test_a_session_is_shared_with_other_workers(site: Site) -> None:
    site.answer("/login", headers={"Set-Cookie": "id=7; Path=/"})
    site.answer("/page")

    async def main() -> Outcome:
        client = Downloader(HERE)
        here, there = (Tasks(type("Off", (Plain,), {"settings": settings}), client)
                       for settings in ({}, {"cookies": False}))  # fmt: skip
        try:
            login = await here.run(Request(f"{site.url}/login", session="left"))
            assert login.fetch.cookies
            there.cookies, newer = login.fetch.cookies, TaskView("running", 1)
            for session in ("left", "right", None):
                await there.run(Request(f"{site.url}/page?{session}", session=session), newer)
            return login
        finally:
            await client.close()

    uvloop.run(main())
    sent = [exchange.header("Cookie") for exchange in site.seen]
    assert sent == [None, "id=7", None, None]


def test_cookies_of_a_fetch_that_failed_are_shared_too(site: Site) -> None:
    site.answer("/loop", status=302, headers={"Location": "/loop", "Set-Cookie": "id=7"})

    async def main() -> Outcome:
        client = Downloader(HERE)
        try:
            return await Tasks(Plain, client).run(Request(f"{site.url}/loop", redirects=1))
        finally:
            await client.close()

    outcome = uvloop.run(main())
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "too_many_redirects")
    assert outcome.fetch.cookies
