"""Recorder: crawls some pages of a spider, one at a time, and keeps requests and responses."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from crawlframe.actions import keeps_page
from crawlframe.base.urls import host_of
from crawlframe.conf import Settings
from crawlframe.errors import Excluded, FetchError, FileGone
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.fetch.journey.trail import Redirected
from crawlframe.identity.identity import Identity
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Admission, Request
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.response import Response
from crawlframe.robots.rules import Rules
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import EXCLUDED
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.testing.result import Result
from crawlframe.testing.runs import LAST
from crawlframe.testing.trial import OneTask, Trial

PAUSE = 1.0  # seconds between two requests to one host with the delay "auto"
LONGEST_PAUSE = 60.0  # seconds that a host may ask to be left alone
TRIES = 4  # of one page
MAX_BODY = 8 << 20  # bytes of a body that belongs into a project's repository
MAX_QUEUED = 100_000  # requests that may wait


class PageCheck(Protocol):
    """Checks each URL before it is sent; ``rules`` are the rules of the last URL."""

    rules: Rules

    async def __call__(self, url: str) -> None: ...


Fetch = Callable[[Request, SpiderSettings], Awaitable[Response]]
MakeCheck = Callable[[Fetch], PageCheck]


@dataclass
class RecordedTransfer:
    """A fetch, as it was."""

    request: Request
    response: Response | None = None
    body: bytes = b""
    redirect: tuple[int, str] | None = None
    error: FetchError | None = None

    @property
    def rendered(self) -> bool:
        return isinstance(self.response, RenderedResponse) or self.request.downloader == BROWSER


@dataclass
class RecordedVisit:
    """A page: its request (None for ``start``), its fetches, and its results."""

    request: Request | None
    transfers: list[RecordedTransfer] = field(default_factory=list)
    result: Result | None = None
    raised: BaseException | None = None
    refused: str = ""  # why it cannot be recorded

    @property
    def url(self) -> str:
        return self.request.url if self.request else "start:"

    @property
    def closes(self) -> bool:
        """Whether its callback ended the task."""
        return self.result is not None and bool(self.result.closing)


class _Waiting(NamedTuple):
    rank: int
    number: int
    request: Request


class Recorder:
    """Records pages of ``kind``. ``check`` makes the check of URLs; None: the spider obeys no
    robots.txt. ``seen`` is called with each visit when it is over."""

    def __init__(
        self,
        kind: type[Spider],
        arguments: dict[str, Any],
        settings: Settings,
        *,
        identity: Identity | None = None,
        pick: Callable[[str], ChosenProxy | None] = lambda choice: None,
        check: MakeCheck | None = None,
        seen: Callable[[RecordedVisit], None] = lambda visit: None,
        pause: float = PAUSE,
    ) -> None:
        own = read_settings(kind)
        self.downloader = _RecordingDownloader(settings, identity, pick)
        self.downloader.check = check if own.robots else None
        self.downloader.delay = pause if own.delay == "auto" else own.delay
        self.downloader.least = own.min_delay
        self.downloader.longest = settings.max_crawl_delay
        self._trial = Trial(kind, self.downloader, arguments, settings=settings, renders=True)
        self._retries = own.retries
        self._seen = seen
        self._queue: list[_Waiting] = []
        self._known: set[bytes] = set()
        self._number = 0

    def run(self, pages: int) -> list[RecordedVisit]:
        """Returns the visits, ``start`` first, in the order of time. At most ``pages`` are fetched,
        spread over the callbacks. Raises errors of ``start``, and SpiderError."""
        return asyncio.run(self._run(pages))

    async def _run(self, pages: int) -> list[RecordedVisit]:
        try:
            return await self._visits(self._trial.task(), pages)
        finally:
            await self.downloader.close()

    async def _visits(self, task: OneTask, pages: int) -> list[RecordedVisit]:
        first = RecordedVisit(None)
        self.downloader.transfers = first.transfers
        outcome = await task.start()
        first.result = self._trial.result_of(outcome)
        visits = [first]
        self._seen(first)
        self._add(outcome)
        made: Counter[str] = Counter()
        while self._queue and sum(made.values()) < pages and not visits[-1].closes:
            request = self._next(made)
            made[_name(request)] += 1
            visit = RecordedVisit(request)
            visits.append(visit)
            if (ended := await self._visit(task, visit)) is not None:
                self._add(ended)
            self._seen(visit)
        return visits

    def _next(self, made: Counter[str]) -> Request:
        """The first request of a callback that has run least often."""
        least = min(made[_name(one.request)] for one in self._queue)
        found = min(one for one in self._queue if made[_name(one.request)] == least)
        self._queue.remove(found)
        return found.request

    def _add(self, outcome: Outcome) -> None:
        for admission in outcome.results.follow_ups:
            if admission.rid not in self._known and len(self._queue) < MAX_QUEUED:
                self._known.add(admission.rid)
                self._queue.append(self._waiting(admission))

    def _waiting(self, admission: Admission) -> _Waiting:
        self._number += 1
        return _Waiting(admission.rank, self._number, Request.decode(admission.record))

    async def _visit(self, task: OneTask, visit: RecordedVisit) -> Outcome | None:
        request = visit.request
        assert request is not None
        if keeps_page(request.options.actions):
            visit.refused = "it uses the page of a browser, which only a browser has"
            return None
        retries = self._retries if request.options.retries is None else request.options.retries
        tries = min(TRIES, retries + 1)
        outcome = None
        for attempt in range(tries):
            self.downloader.transfers = visit.transfers = []
            last = attempt + 1 == tries
            outcome = await self._trial.outcome_of(task, request, LAST if last else attempt)
            if outcome.verdict in (Verdict.DONE, Verdict.ERROR, Verdict.PARK):
                break
            await asyncio.sleep(min(outcome.delay / 1000, LONGEST_PAUSE))
        assert outcome is not None
        self._judge(visit, outcome)
        return outcome

    def _judge(self, visit: RecordedVisit, outcome: Outcome) -> None:
        if outcome.reason in EXCLUDED:
            visit.refused = outcome.detail or outcome.reason
            return
        try:
            visit.result = self._trial.result_of(outcome)
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            if self._trial.raised:
                visit.raised = error
            else:
                visit.refused = str(error)
        for transfer in visit.transfers:
            if len(transfer.body) > MAX_BODY:
                size = f"{len(transfer.body) / (1 << 20):.0f} MiB"
                visit.refused = (
                    f"{transfer.request.url} has {size}; a recorded body has at most "
                    f"{MAX_BODY >> 20}"
                )
            elif isinstance(transfer.error, Excluded):
                visit.refused = str(transfer.error)


class _RecordingDownloader(Downloader):
    """Keeps a pause before each request to a host, and everything that is fetched."""

    check: MakeCheck | None = None
    delay = PAUSE
    least = 0.0
    longest = LONGEST_PAUSE

    def __init__(
        self,
        settings: Settings,
        identity: Identity | None,
        pick: Callable[[str], ChosenProxy | None],
    ) -> None:
        super().__init__(settings, identity, pick=pick)
        self.transfers: list[RecordedTransfer] = []
        self._guard: PageCheck | None = None
        self._sent_at: dict[str, float] = {}  # host -> time.monotonic()
        self._turns: dict[str, asyncio.Lock] = {}

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        via = context.proxy or self.proxy_for(request, settings)
        if self.check is not None and self._guard is None:
            self._guard = self.check(partial(self._plain, via))

        async def check(url: str) -> None:
            if self._guard is not None:
                await self._guard(url)
            await self._pace(url)

        transfer = RecordedTransfer(request)
        self.transfers.append(transfer)
        try:
            checked = replace(context, check=check, proxy=via)
            response = await super().fetch(request, settings, checked)
        except Redirected:
            assert context.trail is not None
            hop = context.trail.hops[-1]
            transfer.redirect = hop.status, hop.url
            raise
        except FetchError as error:
            transfer.error = error
            raise
        if self._guard is not None:
            response.robots = self._guard.rules
        transfer.response, transfer.body = response, _body_of(response)
        return response

    async def _plain(
        self, via: ChosenProxy | None, request: Request, settings: SpiderSettings
    ) -> Response:
        """Fetches files that are not recorded, such as a robots.txt."""
        with self.memory.account() as account:
            context = FetchContext(account=account, proxy=via)
            return await super().fetch(request, settings, context)

    async def _pace(self, url: str) -> None:
        host = host_of(url)
        async with self._turns.setdefault(host, asyncio.Lock()):
            asked = self._guard.rules.crawl_delay if self._guard is not None else 0.0
            delay = max(self.delay, self.least, min(asked, self.longest))
            left = self._sent_at.get(host, -delay) + delay - time.monotonic()
            if host in self._sent_at and left > 0:
                await asyncio.sleep(left)
            self._sent_at[host] = time.monotonic()


def _body_of(response: Response) -> bytes:
    if response.file is None:
        return response.body
    try:
        with response.file.open() as file:
            return file.read(MAX_BODY + 1)
    except FileGone:
        return b""


def _name(request: Request) -> str:
    return request.callback or "parse"
