"""Middlewares around a simulated download."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from crawlframe import CallNext, FetchError, Request, Response, Retry, SyncCallNext
from crawlframe.errors import BadRequest, ConnectionLost, HostChanged, MiddlewareError
from crawlframe.fetch.middlewares import MiddlewareFailed, Middlewares, Watch

URL = "http://example.com/a"


class Download:
    """Answers with the request that it got, unless there is an error to raise."""

    def __init__(self, *errors: Exception) -> None:
        self.asked: list[Request] = []
        self.threads: list[str] = []
        self._errors = [*errors]

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        self.threads.append(threading.current_thread().name)
        await asyncio.sleep(0)
        if self._errors:
            raise self._errors.pop(0)
        return Response(request.url, 200, {}, request.method.encode(), request)


def fetch(
    middlewares: list[Any], download: Download | None = None, request: Request | None = None,
    **options: Any,
) -> Response:  # fmt: skip
    async def main() -> Response:
        layers = Middlewares(middlewares, **options)
        return await layers.fetch(request or Request(URL), download or Download())

    return asyncio.run(main())


def failure(middlewares: list[Any], **options: Any) -> tuple[str, BaseException]:
    """The middleware that failed, and its exception."""
    with pytest.raises(MiddlewareFailed) as caught:
        fetch(middlewares, **options)
    assert f"middleware {caught.value.name}: " in str(caught.value)
    return caught.value.name, caught.value.error


class Named:
    """Adds its name on the way in and on the way out."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        way = request.headers.get("Way", "") + self.name
        response = await call_next(request.replace(headers={"Way": way}))
        body = response.body + self.name.encode()
        return Response(response.url, response.status, response.headers, body, response.request)


class NamedSync(Named):
    def fetch(self, request: Request, call_next: SyncCallNext) -> Response:  # type: ignore[override]
        way = request.headers.get("Way", "") + self.name
        response = call_next(request.replace(headers={"Way": way}))
        body = response.body + self.name.encode()
        return Response(response.url, response.status, response.headers, body, response.request)


KINDS = pytest.mark.parametrize("kind", [Named, NamedSync])


@pytest.mark.parametrize("kinds", [(Named, Named), (Named, NamedSync), (NamedSync, Named),
                                   (NamedSync, NamedSync)])  # fmt: skip
def test_the_first_is_outermost(kinds: Any) -> None:
    download = Download()
    response = fetch([kinds[0]("1"), kinds[1]("2")], download)
    assert response.body == b"GET21"
    assert download.asked[0].headers == {"Way": "12"}
    assert download.threads == [threading.current_thread().name]


def test_many_requests_wait_in_threads_of_several_layers() -> None:
    async def main() -> list[Response]:
        layers = Middlewares([NamedSync(str(n)) for n in range(4)])
        download = Download()
        return await asyncio.gather(*(layers.fetch(Request(URL), download) for _ in range(50)))

    assert {response.body for response in asyncio.run(main())} == {b"GET3210"}


def test_a_class_is_made_once() -> None:
    made = []

    class Counting(Named):
        def __init__(self) -> None:
            made.append(self)
            super().__init__("c")

    async def main() -> None:
        layers = Middlewares([Counting])
        for _ in range(3):
            await layers.fetch(Request(URL), Download())

    asyncio.run(main())
    assert len(made) == 1


def test_the_download_can_be_left_out() -> None:
    class Cached:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return Response(request.url, 200, {}, b"kept", request)

    download = Download()
    assert fetch([Cached], download).body == b"kept"
    assert download.asked == []


@pytest.mark.parametrize("error", [ConnectionLost("gone"), Retry("blocked", after=60)])
def test_errors_of_a_fetch_pass_and_can_be_handled(error: FetchError) -> None:
    seen = []

    class Again:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            try:
                return await call_next(request)
            except FetchError as error:
                seen.append(error)
                return await call_next(request.replace(method="POST"))

    assert fetch([Again, Named("1")], Download(error)).body == b"POST1"
    assert seen == [error]
    with pytest.raises(type(error)) as caught:
        fetch([Named("1"), NamedSync("2")], Download(error))
    assert caught.value is error


class Captcha(FetchError):
    """The error of a page that asks whether this is a human."""

    reason = "captcha"
    retryable = False


@KINDS
def test_a_middleware_raises_a_named_error(kind: type[Named]) -> None:
    class Judge:
        def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
            raise Captcha(f"at {request.url}")

    with pytest.raises(Captcha, match="at http"):
        fetch([kind("1"), Judge])


@KINDS
def test_other_errors_are_those_of_the_innermost_middleware(kind: type[Named]) -> None:
    class Broken:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            await call_next(request)
            raise KeyError("token")

    name, error = failure([kind("1"), Broken, Named("2")])
    assert name.endswith("Broken")
    assert isinstance(error, KeyError)


@KINDS
def test_the_last_error_counts(kind: type[Named]) -> None:
    class Broken:
        def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
            raise KeyError("token")

    class Worse:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            with contextlib.suppress(KeyError):
                await call_next(request)
            raise SystemExit("enough")

    name, error = failure([kind("1"), Worse, Broken])
    assert name.endswith("Worse")
    assert isinstance(error, SystemExit)


def test_what_the_download_raises_is_nobodys_fault() -> None:
    with pytest.raises(BadRequest, match="cookies"):
        fetch([Named("1"), NamedSync("2")], Download(BadRequest("its cookies are too long")))


def test_a_cancelled_error_of_the_authors_is_an_error() -> None:
    class Broken:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            raise asyncio.CancelledError

    name, error = failure([Named("1"), Broken])
    assert name.endswith("Broken")
    assert isinstance(error, asyncio.CancelledError)


# -- forbidden effects ----------------------------------------------------------------------------


def changing(**changes: Any) -> Any:
    class Changing:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return await call_next(request.replace(**changes))

    return Changing


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "http://example.com/other?q=1"},
        {"headers": {"Authorization": "x"}},
        {"method": "POST", "body": b"x"},
        {"cookies": {"a": "b"}},
        {"timeout": 5, "redirects": 0, "session": "s", "max_body": 7},
        {"downloader": "requests"},
        {"meta": {"more": 1}},
    ],
)
def test_a_middleware_can_change_the_request(changes: dict[str, Any]) -> None:
    download = Download()
    fetch([changing(**changes)], download)
    sent = download.asked[0]
    fields = {name: getattr(sent, name, getattr(sent.options, name, None)) for name in changes}
    assert fields == changes


@pytest.mark.parametrize(
    "url", ["http://other.example/a", "http://example.com:8080/a", "http://sub.example.com/a"]
)
def test_another_host_is_refused(url: str) -> None:
    name, error = failure([Named("1"), changing(url=url), Named("2")])
    assert name.endswith("Changing")
    assert isinstance(error, HostChanged)
    assert "yield a Request for it" in str(error)
    assert "from example.com to " in str(error)


def test_a_host_that_is_changed_in_place_is_refused() -> None:
    class Mirror:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            request.url = "HTTP://OTHER.example"
            return await call_next(request)

    assert isinstance(failure([Mirror])[1], HostChanged)


@pytest.mark.parametrize(
    "changes",
    [
        {"callback": "other"},
        {"errback": "other"},
        {"cb_kwargs": {"a": 1}},
        {"priority": 5},
        {"dont_filter": True},
        {"depth": 3},
        {"retries": 5},
        {"handle": [404]},
    ],
)
def test_what_belongs_to_the_callback_is_not_changed(changes: dict[str, Any]) -> None:
    _, error = failure([changing(**changes)])
    assert isinstance(error, MiddlewareError)
    assert f"must not change {next(iter(changes))}," in str(error)


def test_a_header_cannot_smuggle_in_another() -> None:
    class Signing:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            request.headers["Token"] = "a\r\nX-Evil: b"
            return await call_next(request)

    _, error = failure([Signing])
    assert isinstance(error, BadRequest)
    assert "headers['Token']" in str(error)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("returned", [None, "text", Request(URL)])
def test_anything_but_a_response_is_refused(waits: bool, returned: Any) -> None:
    class Waiting:
        async def fetch(self, request: Request, call_next: CallNext) -> Any:
            return returned

    class Plain:
        def fetch(self, request: Request, call_next: SyncCallNext) -> Any:
            return returned

    _, error = failure([Waiting if waits else Plain])
    assert "return a Response" in str(error)


def test_call_next_takes_a_request() -> None:
    class Wrong:
        async def fetch(self, request: Request, call_next: Any) -> Response:
            return await call_next(request.url)

    assert "call_next takes a Request" in str(failure([Wrong])[1])


def test_a_plain_fetch_that_returns_a_coroutine_is_refused() -> None:
    class Wrapped:
        def fetch(self, request: Request, call_next: Any) -> Any:
            return Named("1").fetch(request, call_next)

    assert "write async def fetch" in str(failure([Wrapped])[1])


def test_the_call_next_of_a_thread_is_not_for_the_loop() -> None:
    class Handing:
        def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
            async def elsewhere() -> Response:
                return call_next(request)

            return asyncio.run_coroutine_threadsafe(elsewhere(), loops[0]).result()

    class First:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            loops.append(asyncio.get_running_loop())
            return await call_next(request)

    loops: list[asyncio.AbstractEventLoop] = []
    assert "must not be awaited" in str(failure([First, Handing])[1])


def test_one_call_at_a_time() -> None:
    class Both:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            return (await asyncio.gather(call_next(request), call_next(request)))[0]

    assert "one at a time" in str(failure([Both])[1])


def test_a_call_that_is_left_behind_is_cancelled() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def download(request: Request) -> Response:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            raise AssertionError

        class Leaving:
            async def fetch(self, request: Request, call_next: CallNext) -> Response:
                later.append(call_next)
                tasks.append(asyncio.ensure_future(call_next(request)))
                await asyncio.sleep(0)
                return Response(request.url, 200, {}, b"", request)

        later: list[CallNext] = []
        tasks: list[Any] = []
        with pytest.raises(MiddlewareFailed) as caught:
            await Middlewares([Leaving]).fetch(Request(URL), download)
        assert "while call_next was under way" in str(caught.value.error)
        await asyncio.wait_for(ended.wait(), 10)
        with pytest.raises(MiddlewareError, match="after fetch had returned"):
            await later[0](Request(URL))
        await asyncio.wait(tasks)

    asyncio.run(main())


# -- time -----------------------------------------------------------------------------------------


def test_a_middleware_is_given_up_at_its_deadline() -> None:
    class Hanging:
        async def fetch(self, request: Request, call_next: CallNext) -> Response:
            await call_next(request)
            await asyncio.sleep(60)
            return await call_next(request)

    name, error = failure([Named("1"), Hanging], deadline=0.01)
    assert name.endswith("Hanging")
    assert "longer than 0.01 s, not counting call_next" in str(error)


def test_the_time_of_call_next_is_not_that_of_the_middleware() -> None:
    class Slow(Download):
        async def __call__(self, request: Request) -> Response:
            await asyncio.sleep(0.3)
            return await super().__call__(request)

    assert fetch([Named("1"), NamedSync("2"), Named("3")], Slow(), deadline=0.1).body == b"GET321"


@pytest.mark.parametrize("kind", [Named, NamedSync])
def test_a_cancelled_fetch_ends_what_is_inside(kind: type[Named]) -> None:
    async def main() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def download(request: Request) -> Response:
            began.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            raise AssertionError

        running = asyncio.ensure_future(Middlewares([kind("1")]).fetch(Request(URL), download))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(main())


# -- reports --------------------------------------------------------------------------------------


def test_running_code_is_watched() -> None:
    class Noting(Watch):
        def __init__(self) -> None:
            self.threads: set[int] = set()
            self.loops = 0

        def in_loop(self, awaitable: Awaitable[Response]) -> Awaitable[Response]:
            self.loops += 1
            return awaitable

        @contextlib.contextmanager
        def in_thread(self) -> Iterator[None]:
            self.threads.add(threading.get_ident())
            yield
            self.threads.remove(threading.get_ident())

    class Looking:
        def __init__(self, look: Callable[[], Any]) -> None:
            self._look = look

        def fetch(self, request: Request, call_next: SyncCallNext) -> Response:
            seen.append(threading.get_ident() in watch.threads)
            response = call_next(request)
            seen.append(threading.get_ident() in watch.threads)
            return response

    async def download(request: Request) -> Response:
        seen.append(bool(watch.threads))
        return Response(request.url, 200, {}, b"", request)

    async def main() -> None:
        await Middlewares([Named("1"), Looking(list)]).fetch(Request(URL), download, watch)

    watch = Noting()
    seen: list[bool] = []
    asyncio.run(main())
    assert seen == [True, False, True]
    assert (watch.threads, watch.loops) == (set(), 2)
