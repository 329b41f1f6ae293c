"""Rendering: pages of ``render = "auto"``, which are fetched plainly first and again by the browser
if they are incomplete. Both fetches belong to one request, which waits for its host in between."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from crawlframe.errors import BadRequest
from crawlframe.fetch.middlewares import is_cancelled
from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.crawl.callbacks import Call, Callbacks
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.verdict.failures import callback_traceback
from crawlframe.render.knowledge import UNKNOWN, Knowledge, Lesson, URLTemplate, form_of
from crawlframe.render.required import required_of
from crawlframe.render.yielded import NOTHING, Attempt, Reason, Yielded, lacks, lesson_of, reason_of
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.record import render_of, with_render
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import Spider

ASKING = "needs_browser"
PAGES = ("html", "xml")  # kinds of bodies that a browser would change
READ_SECONDS = 0.4  # seconds between two reads of the used spiders
IDLE_SECONDS = 30.0  # seconds after which a spider is no longer followed

Found = dict[URLTemplate, Knowledge]


class RenderSource(ABC):
    """Knowledge about templates."""

    @abstractmethod
    async def find(self, spider: str, template: URLTemplate) -> Knowledge:
        """Returns the knowledge about a template of a spider."""

    @abstractmethod
    def begin(self, spider: str, template: URLTemplate, *, direct: bool) -> None:
        """Records the start of a page whose template needs the browser, without a plain fetch if it
        is ``direct``."""


class StoredRenders(RenderSource):
    """Knowledge of all nodes, whose changes are followed. ``clock`` returns seconds since the
    epoch."""

    def __init__(self, stores: Stores, clock: Callable[[], float] = time.time) -> None:
        self._stores = stores
        self._clock = clock
        self._known: dict[str, Found] = {}  # by spider
        self._last: dict[str, float] = {}  # when it was used

    async def find(self, spider: str, template: URLTemplate) -> Knowledge:
        now = self._clock()
        self._last[spider] = now
        if spider not in self._known:
            renders = self._stores.frontier.renders
            found = await self._stores.ask(lambda: renders.of(spider))
            self._known.setdefault(spider, found)
        known = self._known.get(spider, {}).get(template, UNKNOWN)
        return known.at(round(1000 * now))

    def begin(self, spider: str, template: URLTemplate, *, direct: bool) -> None:
        """Counts the page until the next read, so that not all pages that start until then are
        fetched plainly."""
        found = self._known.get(spider, {})
        if (known := found.get(template)) is not None:
            found[template] = known._replace(skipped=known.skipped + 1 if direct else 0)

    async def watch(self) -> None:
        """Follows the changes, until it is cancelled."""
        what = "renders of templates"
        await self._stores.follow(READ_SECONDS, self._used, self._read, self._take, what)

    def _used(self) -> bool:
        """Forgets spiders that are not used any more; returns whether there are others."""
        now = self._clock()
        for spider in [name for name, used in self._last.items() if now - used > IDLE_SECONDS]:
            del self._last[spider]
            self._known.pop(spider, None)
        return bool(self._known)

    def _read(self) -> dict[str, Found]:
        return {spider: self._stores.frontier.renders.of(spider) for spider in [*self._known]}

    def _take(self, found: dict[str, Found]) -> None:
        self._known |= {spider: some for spider, some in found.items() if spider in self._known}


class Rendering:
    """The stage that renders. ``source`` None: only if a request asks for the browser."""

    def __init__(self, callbacks: Callbacks, source: RenderSource | None) -> None:
        self._callbacks = callbacks
        self._source = source

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage. Raises BadRequest."""
        attempt = await self._plan(fetch)
        response = await call_next(fetch)
        fetch.outcome.fetch.attempt = attempt
        return response

    async def _plan(self, fetch: ClaimedFetch) -> Attempt | None:
        """Chooses the downloader of the request. None: it is not chosen here. Raises BadRequest."""
        outcome, crawl, request = fetch.outcome, fetch.crawl, fetch.request
        mark, auto = render_of(outcome.record), _is_auto(crawl, request)
        if mark is not None:
            request.downloader = BROWSER
        if self._source is None or not auto:
            return None
        spider, template = crawl.spec.spider, URLTemplate(outcome.callback, form_of(request.url))
        known = await self._source.find(spider, template)
        attempt = Attempt(spider, template, known)
        if mark is not None:
            attempt.reason, attempt.plain = _read(mark)
            return attempt
        attempt.direct = known.leaves_out_plain()
        if known.renders:
            self._source.begin(spider, template, direct=attempt.direct)
        if attempt.direct:
            request.downloader = BROWSER
        return attempt

    async def run(
        self,
        attempt: Attempt,
        outcome: Outcome,
        crawl: TaskCrawl,
        response: Response,
        call: Callable[[], Awaitable[Outcome]],
    ) -> Outcome:
        """Runs the callback by ``call``. If the page must be rendered, the callback's results are
        dropped, and the request returns to its host with a mark."""
        judged = attempt.is_plain and response.kind in PAGES
        if judged:
            try:
                if await self._is_asked(outcome, crawl, response):
                    return _render(outcome, Reason.ASKED, NOTHING)
            except BaseException as error:  # authors' code may raise anything, SystemExit included
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
                return outcome.end(Verdict.ERROR, "callback", callback_traceback(error))
        await call()
        if not attempt.is_plain:
            if outcome.verdict is Verdict.DONE:
                attempt.lesson = Lesson.DIRECT
                if attempt.reason is not None:
                    found = _yielded(outcome, crawl)
                    attempt.lesson = lesson_of(attempt.plain, found, attempt.reason)
        elif judged and 200 <= response.status < 300:
            if outcome.verdict is Verdict.ERROR and outcome.reason == "callback":
                _render(outcome, Reason.FAILED, NOTHING)
            elif outcome.verdict is Verdict.DONE:
                plain = _yielded(outcome, crawl)
                reason = reason_of(plain, attempt.known)
                if reason is not None:
                    _render(outcome, reason, plain)
                else:
                    attempt.lesson = Lesson.STATIC if plain.items else Lesson.BARE
        return outcome

    async def _is_asked(self, outcome: Outcome, crawl: TaskCrawl, response: Response) -> bool:
        """Whether ``needs_browser`` says so. Raises its errors."""
        method = crawl.spider.needs_browser
        if getattr(method, "__func__", None) is Spider.needs_browser:
            return False
        answers: list[Any] = []
        ask = partial(lambda: answers.append(method(response)))
        await self._callbacks.run(Call(outcome.task, ASKING, outcome.rid, ask, answers.append))
        return bool(answers[0])


def _is_auto(crawl: TaskCrawl, request: Request) -> bool:
    """Whether the downloader of the request may be chosen. A request that is no GET would be
    received twice; a file needs no browser."""
    settings = crawl.settings
    return (
        settings.render == "auto"
        and settings.downloader != BROWSER
        and request.downloader is None
        and request.method == "GET"
        and not request.options.save
    )


def _yielded(outcome: Outcome, crawl: TaskCrawl) -> Yielded:
    if crawl.required is None:
        crawl.required = required_of(type(crawl.spider))
    dropped = outcome.fetch.attempt.dropped if outcome.fetch.attempt is not None else 0
    return Yielded(
        len(outcome.results.items) + dropped + len(outcome.results.proxies or ()),
        len(outcome.results.follow_ups) + outcome.results.duplicates,
        outcome.results.unfit or lacks(outcome.results.items, crawl.required),
        bool(outcome.results.closing),
    )


def _render(outcome: Outcome, reason: Reason, plain: Yielded) -> Outcome:
    outcome.record = with_render(outcome.record, [str(reason), *plain])
    outcome.target = outcome.place_of(outcome.host)
    outcome.fetch.exchange = None
    return outcome.end(Verdict.REDIRECT)


def _read(mark: list[Any]) -> tuple[Reason, Yielded]:
    """Raises BadRequest."""
    try:
        reason, items, links, missing, closing = mark
        return Reason(reason), Yielded(int(items), int(links), bool(missing), bool(closing))
    except (ValueError, TypeError) as error:
        raise BadRequest(f"a queued request cannot be read: its mark: {error}") from None
