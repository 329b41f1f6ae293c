"""Runs: one callback of a spider, run as a worker runs it."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, Literal

from multidict import CIMultiDict

from crawlframe.base.media_type import HEAD, essence_of, is_wanted, media_type
from crawlframe.conf import Settings
from crawlframe.errors import FetchError, FileRefused
from crawlframe.fetch.downloader import Downloader, limits_of
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.files.saved_file import SavedFile
from crawlframe.files.store import path_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
from crawlframe.spider.task_info import Summary
from crawlframe.testing.result import Result
from crawlframe.testing.trial import URL, Trial

Download = Callable[[Request], Response | Awaitable[Response]]
Callback = Callable[..., Any] | str
LAST = 1 << 20  # tries that failed before; no request has that many


def run(
    spider: type[Spider] | Spider,
    got: Response | Request | FetchError | Summary | None = None,
    callback: Callback | None = None,
    *,
    arguments: dict[str, Any] | None = None,
    middlewares: bool = True,
    pipelines: bool = True,
    download: Download | None = None,
    attempts: int = 0,
) -> Result:
    """Run one method of a spider with the engine of a worker, and return its results.

    ``got`` chooses the method: for a Response it is the callback; for a Request, too, after
    ``download`` has returned the response; for a FetchError the errback; for a Summary ``closed``;
    without any ``start``. ``callback`` is a method of the spider or its name; by default the
    request's. ``opened`` of the spider and ``open`` of its pipelines run before, as in each worker.

    ``spider`` is a class, or an object on which attributes were set. ``arguments``: of the task;
    required ones may be missing. ``middlewares`` and ``pipelines``: whether the spider's run.
    ``download`` takes a Request and returns a Response or raises FetchError; it may be async.
    Redirects are followed as a node does it: ``download`` is called for each target, unless the
    request has ``redirects=0``. ``attempts`` is the number of tries that failed before; with a
    status of 429 or 503, how often the host refused it.

    Raises errors of the author's code, as they are. Raises SpiderError where a node would refuse or
    park, such as for a Request that names no method of the spider; BadRequest for a Request that
    cannot be stored; ArgumentError; TypeError for inputs that do not fit together, such as a
    Response that redirects, without its target's Response; and RuntimeError in an event loop: use
    ``await asyncio.to_thread(run, ...)`` there."""
    __tracebackhide__ = True  # in pytest
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("run was called in an event loop; use await asyncio.to_thread(run, ...)")
    request, download = _input(got, callback, download)
    given = Given(download, knows_targets=not isinstance(got, Response))
    trial = Trial(
        *(spider, given, arguments),
        middlewares=middlewares,
        pipelines=pipelines,
        tokens=isinstance(got, Request),
    )
    return trial.run(request, LAST if isinstance(got, FetchError) else attempts)


class Given(Downloader):
    """Gets its responses from a function; nothing is fetched."""

    def __init__(self, download: Download | None, knows_targets: bool = True) -> None:
        """``knows_targets``: whether ``download`` also has the responses that redirects lead to."""
        super().__init__(Settings())
        self._download = download
        self._knows_targets = knows_targets

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        """Raises Redirected instead of returning a redirect, and FetchError for one that is not
        followed, as a Downloader does."""
        assert self._download is not None
        trail = context.trail
        if trail is not None and trail.hops and not self._knows_targets:
            raise TypeError(
                f"run: the response redirects to {request.url}, which a node would fetch; give a "
                "Request, and download, a function from the Request of each URL to its Response. "
                "With redirects=0 in the request the callback gets the response itself"
            )
        given = self._download(request)
        if inspect.isawaitable(given):
            given = await given
        if not isinstance(given, Response):
            raise TypeError(f"download returned {given!r:.80}; return a Response")
        response = copy.copy(given)
        response.request = request  # the decoded one, as in a node

        async def transfer(journey: Journey) -> Answer:
            return Answer(response.status, CIMultiDict(response.headers), b"")

        limits = limits_of(request, settings)
        context = FetchContext(allowed=context.allowed, trail=trail)
        await Journey(request, limits, {}, None, context).run(transfer)
        if request.options.save and response.ok and response.file is None:
            response.file, response.body = saved(response, request.options.save), b""
        return response


def _input(
    got: object, callback: Callback | None, download: Download | None
) -> tuple[Request | Summary | None, Download | None]:
    """Returns the request or summary to run, and the download for its response. Raises TypeError
    for inputs that do not fit together."""
    __tracebackhide__ = True
    match got:
        case Response() | FetchError() if download is not None:
            kind = "Response" if isinstance(got, Response) else "FetchError"
            raise TypeError(f"run: give a {kind} or download, not both")
        case Response():
            return _calling(callback, got.request), lambda request: got
        case Request() if download is None:
            raise TypeError("run: for a Request, give download, a function from it to Response")
        case Request():
            return _calling(callback, got), download
        case FetchError():
            return _failed(got, callback), partial(_fail, got)
        case Summary() | None if callback is not None or download is not None:
            raise TypeError("run: start and closed take neither callback nor download")
        case Summary() | None:
            return got, None
    raise TypeError(
        f"run: {got!r:.80} is no Response, Request, FetchError or Summary; without one of "
        "them start is run"
    )


def _calling(callback: Callback | None, request: Request) -> Request:
    return request if callback is None else request.replace(callback=_name(callback))


def _fail(error: FetchError, request: Request) -> Response:
    raise error


def _failed(error: FetchError, errback: Callback | None) -> Request:
    """Returns the request that ends with the error. Raises TypeError if it has no errback."""
    request = error.request or Request(URL)
    if errback is not None:
        return request.replace(errback=_name(errback))
    if request.errback is None:
        raise TypeError("run: name the errback, for the FetchError has no request with one")
    return request


def _name(callback: Callback) -> str:
    """Returns the name of a method of an object, or of a class."""
    return callback if isinstance(callback, str) else getattr(callback, "__name__", repr(callback))


class Memory:
    """Files by their hash."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def open(self, sha256: str) -> BinaryIO:
        return BytesIO(self._files[sha256])

    def keep(self, data: bytes, sha256: str) -> str:
        self._files[sha256] = data
        return path_of(sha256)


def saved(response: Response, wanted: Literal[True] | Collection[str]) -> SavedFile:
    """Raises FileRefused for a type that is not wanted."""
    body = response.body
    kind = media_type(essence_of(response.headers.get("Content-Type", "")), body[:HEAD])
    if wanted is not True and not is_wanted(kind, wanted):
        raise FileRefused(
            f"{response.url}: the file is {kind}; the request saves {', '.join(wanted)}"
        )
    sha256 = hashlib.sha256(body).hexdigest()
    room = Memory()
    return SavedFile(response.url, room.keep(body, sha256), sha256, len(body), kind).within(room)
