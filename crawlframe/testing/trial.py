"""Trial: a spider whose methods are run one at a time, by the engine of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from mimetypes import guess_type
from os import PathLike
from pathlib import Path
from typing import Any

from multidict import CIMultiDict

from crawlframe.base.exact_json import dumps
from crawlframe.base.urls import normalise
from crawlframe.charsets.encoding import encoding_of
from crawlframe.charsets.labels import encode
from crawlframe.conf import Settings
from crawlframe.errors import BadRequest, CrawlframeError, SpiderError
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.middlewares import Middlewares, layers_of
from crawlframe.frontier.client.records import Claimed, TaskView
from crawlframe.items.pipelines import Pipelines
from crawlframe.node.worker.crawl.task_crawl import Park, TaskCrawl, check_fit, method
from crawlframe.node.worker.fetch.rendering import RenderSource
from crawlframe.node.worker.fetch.stages import FetchSources
from crawlframe.node.worker.run_request import RequestRunner
from crawlframe.node.worker.task.task_source import TaskSource
from crawlframe.node.worker.verdict.failures import authors_part
from crawlframe.render.knowledge import UNKNOWN, Knowledge, URLTemplate
from crawlframe.request.record import render_of
from crawlframe.request.request import Admission, Request, end_admission, make_rid, root_admission
from crawlframe.response.response import Response
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import Spider, build, describe
from crawlframe.spider.task_info import Summary
from crawlframe.spiders.json_api import AccessToken
from crawlframe.testing.result import Result

RUNNING = TaskView("running", 0)
URL = "https://www.example.com/"
_END = datetime(2026, 1, 1, 12, tzinfo=UTC)
_SUMMARY = Summary(
    1, "", {}, "finished", "", _END - timedelta(minutes=1), _END, 0, 0, 0, 0, 0, {}, {}
)


class _NothingKnown(RenderSource):
    """Each page is fetched plainly first."""

    async def find(self, spider: str, template: URLTemplate) -> Knowledge:
        return UNKNOWN

    def begin(self, spider: str, template: URLTemplate, *, direct: bool) -> None:
        pass


class Trial:
    """Runs the methods of one spider: of a class, or of an object on which attributes were set.
    ``downloader`` fetches the pages. ``arguments``: of the task; required ones may be missing."""

    def __init__(
        self,
        spider: type[Spider] | Spider,
        downloader: Downloader,
        arguments: dict[str, Any] | None = None,
        *,
        middlewares: bool = True,
        pipelines: bool = True,
        settings: Settings | None = None,
        tokens: bool = True,
        renders: bool = False,
        run: Callable[[Coroutine[Any, Any, Outcome]], Outcome] = asyncio.run,
    ) -> None:
        """``tokens``: a token is asked for if the spider needs one. ``renders``: pages of ``render
        = "auto"`` are fetched again by the browser if they are incomplete. ``run`` runs a coroutine
        in an event loop. Raises SpiderError if a
        node would refuse the spider."""
        self._object = None if isinstance(spider, type) else spider
        self._kind = spider if isinstance(spider, type) else type(spider)
        describe(self._kind)
        self._downloader = downloader
        self._spec = TaskSpec(1, self._kind.name, arguments or {}, 0)
        self._with_middlewares = middlewares
        self._with_pipelines = pipelines
        self._with_tokens = tokens
        self._renders = _NothingKnown() if renders else None
        self._run_in_loop = run
        self._settings = replace(settings or Settings(), keep_sample=0)  # nothing is stored
        self._failures: list[BaseException] = []
        self._crawl: TaskCrawl | None = None

    def run(self, got: Request | Summary | None, attempts: int = 0) -> Result:
        """Returns the results of a Request; or of ``closed``, for a Summary; or of ``start``, for
        None. ``attempts`` is the number of tries that failed before. Raises errors of the author's
        code, SpiderError where a node would park, and BadRequest for a Request that cannot be
        stored."""
        __tracebackhide__ = True  # in pytest
        self._failures.clear()
        outcome = self._run_in_loop(self._run(got, attempts))
        return self.result_of(outcome)

    def attempt(self, request: Request | None, attempts: int = 0) -> Result | BaseException:
        """As ``run``, but returns the error of the author's code. Raises CrawlframeError if the
        request cannot be given to this code."""
        try:
            return self.run(request, attempts)
        except CrawlframeError as error:
            if not self._failures:
                raise
            return error
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            return error

    def result_of(self, outcome: Outcome) -> Result:
        """Returns the result of the last outcome. Raises as ``run`` does."""
        __tracebackhide__ = True
        if self._failures:
            error = self._failures[0]
            raise error.with_traceback(authors_part(error.__traceback__))
        if outcome.verdict is Verdict.PARK:
            raise SpiderError(outcome.reason)
        if outcome.reason == "bad_request":
            raise BadRequest(outcome.detail)
        result = Result.of(outcome)
        for request in result.requests:
            assert self._crawl is not None
            try:
                check_fit(self._crawl, request)
                if request.errback:
                    method(self._crawl, request.errback)
            except Park as park:
                raise SpiderError(f"{park}: {request!r}") from None
        return result

    @property
    def raised(self) -> bool:
        """Whether the code of the spider has raised."""
        return bool(self._failures)

    def task(self) -> OneTask:
        """Returns the task of the spider, which can run several requests one after the other."""
        return OneTask(
            *(self._spec, self._make, self._downloader, self._settings),
            failed=self._failures.append,
            sources=FetchSources(renders=self._renders),
        )

    async def outcome_of(self, task: OneTask, request: Request, attempts: int = 0) -> Outcome:
        """Returns the outcome of one request of ``task``, for ``result_of``. Raises BadRequest."""
        self._failures.clear()
        outcome = await task.run(request, attempts=attempts, refusals=attempts)
        if outcome.verdict is Verdict.REDIRECT and render_of(outcome.record) is not None:
            self._failures.clear()  # the plain page was incomplete
            claimed = Claimed(
                *(outcome.rid, task.task, request.host, attempts, 0, outcome.record),
                refusals=attempts,
            )
            outcome = await task.take(claimed)
        return outcome

    async def _run(self, got: Request | Summary | None, attempts: int) -> Outcome:
        task = self.task()
        try:
            if isinstance(got, Request):
                return await self.outcome_of(task, got, attempts)
            if got is None:
                return await task.start()
            task.summary = got
            return await task.end()
        finally:
            await self._downloader.close()

    def _make(self, spec: TaskSpec) -> TaskCrawl:
        try:
            spider, start_arguments = build(
                self._kind, spec.arguments, spec.settings, complete=False
            )
            if self._object is not None:
                for name in spec.arguments.keys() - start_arguments.keys():
                    setattr(self._object, name, getattr(spider, name))
                spider = self._object
            middlewares = self._kind.middlewares if self._with_middlewares else ()
            layers = layers_of(spider)
            if not self._with_tokens:
                layers = tuple(one for one in layers if not isinstance(one, AccessToken))
            middlewares = (*middlewares, *layers)
            self._crawl = TaskCrawl.of(
                spec,
                spider,
                start_arguments,
                Middlewares(middlewares, self._settings.deadline) if middlewares else None,
                Pipelines(spider.pipelines if self._with_pipelines else (), self._kind.item),
            )
        except BaseException as error:  # the author's __init__ and properties run here
            self._failures.append(error)
            raise
        return self._crawl


def make_response(
    url: str = URL,
    *,
    html: str | None = None,
    text: str | None = None,
    json: Any = None,
    body: bytes | None = None,
    file: str | PathLike[str] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request: Request | None = None,
    cb_kwargs: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Response:
    """Return a response as a server would have sent it.

    One of ``html``, ``text``, ``json``, ``body`` and ``file`` is its body. The first three set the
    Content-Type, and so does the suffix of a ``file``; one in ``headers`` wins, and text is encoded
    in the charset that it or the page names. ``request`` is by default one for ``url``, with
    ``cb_kwargs`` and ``meta``. Raises BadRequest for a URL that is not http(s), TypeError if two
    bodies are given, or data next to ``request``."""
    given = {"html": html, "text": text, "json": json, "body": body, "file": file}
    bodies = [name for name, value in given.items() if value is not None]
    if len(bodies) > 1:
        raise TypeError(f"make_response: give only one of {' and '.join(bodies)}")
    if request is None:
        request = Request(url, cb_kwargs=cb_kwargs, meta=meta)
    elif cb_kwargs is not None or meta is not None:
        raise TypeError("make_response: give cb_kwargs and meta to the request")
    own = CIMultiDict(headers or {})
    if html is not None or text is not None:
        own.setdefault("Content-Type", f"text/{'plain' if html is None else 'html'}; charset=utf-8")
        body = _encoded(html if html is not None else text or "", own["Content-Type"], url)
    elif json is not None:
        own.setdefault("Content-Type", "application/json")
        body = dumps(json)
    elif file is not None:
        body = Path(file).read_bytes()
        if kind := guess_type(file)[0]:
            own.setdefault("Content-Type", kind)
    return Response(normalise(url), status, own, body or b"", request)


def _encoded(text: str, content_type: str, url: str) -> bytes:
    utf8 = text.encode("utf-8", "replace")
    response = Response(url, 200, {"Content-Type": content_type}, utf8, Request.plain(url))
    return encode(text, encoding_of(utf8, content_type, response.kind, url))


def make_summary(**fields: Any) -> Summary:
    """Return a Summary for ``closed``, of a task that has finished: only the fields that matter
    need to be given. Raises TypeError for a field that Summary does not have."""
    if unknown := fields.keys() - Summary._fields:
        raise TypeError(
            f"make_summary: Summary has no field {min(unknown)!r}; it has "
            f"{', '.join(Summary._fields)}"
        )
    return _SUMMARY._replace(arguments={}, stats={}, maxima={})._replace(**fields)


class OneTask(TaskSource):
    """Runs requests of one task. A worker would load ``spec``, ``cookies`` and ``summary`` from the
    database and Redis; they can be changed between two runs."""

    def __init__(
        self,
        spec: TaskSpec,
        make: Callable[[TaskSpec], TaskCrawl],
        downloader: Downloader,
        settings: Settings | None = None,
        version: str = "",
        mark: Callable[[int, bytes], None] = lambda slot, rid: None,
        **more: Any,
    ) -> None:
        """``more`` is passed to the RequestRunner."""
        self.task = spec.task
        self._make = make
        self.spec: TaskSpec | None = spec
        self.cookies: dict[str, str] = {}
        self.summary: Summary | None = None
        self.runner = RequestRunner(
            settings or Settings(),
            self,
            version,
            downloader,
            Sieve(),
            mark,
            **more,
        )

    async def run(
        self,
        request: Request,
        view: TaskView = RUNNING,
        *,
        attempts: int = 0,
        deliveries: int = 0,
        kills: int = 0,
        refusals: int = 0,
        due: float | None = None,
    ) -> Outcome:
        """Returns the outcome of a request, which is encoded and decoded first. Raises BadRequest
        if it cannot be encoded."""
        rid, record = make_rid(self.task, request.fingerprint()), request.encode()
        before = attempts, deliveries, record, 0, kills, refusals
        return await self.take(Claimed(rid, self.task, request.host, *before, due=due), view)

    async def start(self) -> Outcome:
        """Returns the outcome of the root request, which runs ``start``."""
        return await self._first(root_admission(self.task))

    async def end(self, view: TaskView = RUNNING) -> Outcome:
        """Returns the outcome of the last request, which runs ``closed``."""
        return await self._first(end_admission(self.task), view)

    async def take(self, claimed: Claimed, view: TaskView = RUNNING) -> Outcome:
        """Returns the outcome of a claimed request, run in its own asyncio task and context, as in
        a worker."""
        return await asyncio.create_task(self.runner.run(claimed, view))

    async def _first(self, admission: Admission, view: TaskView = RUNNING) -> Outcome:
        rid, _, host, _, record = admission
        return await self.take(Claimed(rid, self.task, host, 0, 0, record), view)

    async def load_task(self, task: int) -> TaskSpec | None:
        return self.spec

    async def load_cookies(self, task: int) -> tuple[dict[str, str], int]:
        return self.cookies, 0

    async def load_summary(self, task: int) -> Summary | None:
        return self.summary

    def make(self, spec: TaskSpec) -> TaskCrawl:
        return self._make(spec)
