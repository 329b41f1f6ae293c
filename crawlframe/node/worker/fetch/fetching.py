"""Fetching: the first half of a request's run, from the claim to its response."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from enum import IntEnum, auto
from functools import partial

from crawlframe.base import faults
from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of
from crawlframe.errors import Blocked, ConnectionLost, FetchError, FetchTimeout
from crawlframe.fetch.body.memory import Account
from crawlframe.fetch.downloader import Downloader, limits_of
from crawlframe.fetch.journey.context import FetchContext
from crawlframe.fetch.journey.journey import IDEMPOTENT
from crawlframe.fetch.journey.trail import Challenged, Trail
from crawlframe.fetch.middlewares import MiddlewareFailed
from crawlframe.frontier.client.records import NO_SIGNAL, Claimed
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.commit.participants import MAX_DETAIL
from crawlframe.node.worker.crawl.callbacks import Callbacks
from crawlframe.node.worker.crawl.stage import ClaimedFetch, CrawlFetch, Next, NoResponse, Stage
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.fetch.permits import HostPermits
from crawlframe.node.worker.fetch.replay import KEPT_HOST
from crawlframe.node.worker.verdict.backoff import MAX_POLL, POLL, RESERVED_MS, backoff
from crawlframe.node.worker.verdict.failures import StatusError
from crawlframe.node.worker.verdict.signals import FetchReports, JudgementFailed
from crawlframe.request.record import is_plain, with_hops
from crawlframe.request.request import Request
from crawlframe.response.browser_response import is_held
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CHALLENGED, DUPLICATE

MAX_MEMORY_WAITS = 10_000  # requests remembered
MAX_HOLD = 60.0  # seconds: a link to the target that was found meanwhile waits for so long
MAX_CHALLENGES = 3  # for which a request goes back; it answers further ones at once


class Way(IntEnum):
    """The kinds of claims, which pass different stages."""

    PLAIN = auto()  # with no options, redirects or proxy
    USUAL = auto()
    KEPT = auto()  # waits apart from its host, because the development cache had its page
    HOMELESS = auto()  # of a host whose address is not known
    ERRAND = auto()  # brought to another host by a file about its own

    @classmethod
    def of(cls, fetch: ClaimedFetch) -> Way:
        claimed, outcome = fetch.claimed, fetch.outcome
        if claimed.host.startswith(KEPT_HOST):
            return cls.KEPT
        if claimed.homeless:
            return cls.HOMELESS
        if outcome.side_trip is not None:
            return cls.ERRAND
        plain = is_plain(outcome.record) and not outcome.route
        return cls.PLAIN if plain else cls.USUAL


NO_FETCH = (Way.HOMELESS, Way.ERRAND)
# The stages of a crawl for a kind of claim, around one in their middle.
StagesOf = Callable[[TaskCrawl, Way, Stage[ClaimedFetch]], Next[ClaimedFetch]]


class MemoryWaits:
    """The requests of one worker that had to wait for memory. Each request is excused once: the
    next time, the memory for the largest body is reserved before its transfer starts, so that it
    cannot fail for the same reason."""

    def __init__(self) -> None:
        # Of excused requests.
        self.rids: BoundedDict[bytes, None] = BoundedDict(MAX_MEMORY_WAITS)

    def excuses(self, rid: bytes, error: FetchError, account: Account) -> bool:
        """Whether the fetch failed because it had to wait for memory. Servers close connections
        that are idle, and firewalls forget them, which shows as a time-out."""
        lost = isinstance(error, ConnectionLost | FetchTimeout) and account.waited > 0
        if not lost or rid in self.rids:
            return False
        self.rids[rid] = None
        return True


class Fetching:
    """The fetches of one worker. ``callbacks`` knows the slow callbacks; ``stages``: as of Stages;
    ``permits`` knows whether the target of a redirect is the page of another request."""

    def __init__(
        self,
        callbacks: Callbacks,
        stages: StagesOf,
        permits: HostPermits,
        reports: FetchReports,
    ) -> None:
        self._callbacks = callbacks
        self._stages = stages
        self._permits = permits
        self._reports = reports
        self._memory_waits = MemoryWaits()

    async def fetch(
        self,
        outcome: Outcome,
        crawl: TaskCrawl,
        request: Request,
        claimed: Claimed,
        account: Account,
    ) -> Response | None:
        """Returns the response for the callback. None: the outcome has ended, and the request waits
        without an attempt being counted, or goes to another host. Raises FetchError, StatusError
        for an unhandled status, UsageDenied, MiddlewareFailed and JudgementFailed."""
        account.in_advance = outcome.rid in self._memory_waits.rids
        paced = claimed.due is not None and claimed.refusals < MAX_CHALLENGES
        trail = Trail(request, outcome.fetch.redirects, paced=paced)
        fetch = ClaimedFetch(
            *(crawl, outcome.rid, request, trail, account, self._reports.send_time(claimed)),
            outcome=outcome,
            request=request,
            claimed=claimed,
        )
        trail.going = partial(self._check_target, fetch)
        try:
            response = await self._stages_of(fetch)(fetch)
        except NoResponse:
            response = None
        except Exception:
            share_cookies(outcome, crawl)
            raise
        share_cookies(outcome, crawl)
        return response

    def _stages_of(self, fetch: ClaimedFetch) -> Next[ClaimedFetch]:
        way, known = Way.of(fetch), fetch.crawl.stages
        if (found := known.get(way)) is None:
            found = known[way] = self._stages(fetch.crawl, way, self._follow)
        return found

    async def _follow(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """The stage between the stages of a claim and of each URL that is sent: it follows
        redirects, and records the result."""
        outcome, crawl = fetch.outcome, fetch.crawl
        if outcome.fetch.redirects and not await self._may_go(fetch):
            self._reports.unsent(fetch)
            raise NoResponse

        def send(asked: Request) -> Awaitable[Response]:
            fetch.asked = asked
            return call_next(fetch)

        try:
            faults.at("fetch.before", ConnectionLost)
            response = await fetch.trail.follow(
                send,
                partial(_renewed, fetch) if crawl.middlewares is not None else None,
                partial(self._redirected, fetch),
            )
            faults.at("fetch.after", ConnectionLost)
        except (AnothersPage, RedirectWaits):  # the outcome has ended
            self._reports.end(fetch)
            raise NoResponse from None
        except Challenged:
            self._reports.end(fetch)
            outcome.end(Verdict.RELEASE, CHALLENGED)
            raise NoResponse from None
        except (FetchError, MiddlewareFailed) as error:
            self._fail(fetch, error)
            raise
        self._take(fetch, response)
        return response

    def _take(self, fetch: ClaimedFetch, response: Response) -> None:
        """Raises JudgementFailed and StatusError."""
        outcome, crawl = fetch.outcome, fetch.crawl
        # Hosts of slow callbacks keep their slots: otherwise they would occupy all slots of the
        # workers. So do those whose page a callback uses: they would occupy all of the browser.
        slow = is_held(response) or self._callbacks.is_slow(outcome.task, outcome.callback)
        self._reports.end(fetch, keep_slot=slow)
        outcome.fetch.status, outcome.fetch.size = response.status, response.size
        if fetch.misjudged is not None:
            raise JudgementFailed(fetch.misjudged)
        if not crawl.handles(fetch.asked, response.status):
            raise StatusError(response, response.status in crawl.settings.retry_statuses)

    def _fail(self, fetch: ClaimedFetch, error: FetchError | MiddlewareFailed) -> None:
        """Raises NoResponse if the request is to be fetched again, without an attempt being
        counted."""
        outcome = fetch.outcome
        repeatable = fetch.asked.method in IDEMPOTENT or fetch.crawl.retries(fetch.request) > 0
        if (
            isinstance(error, FetchError)
            and repeatable
            and self._memory_waits.excuses(outcome.rid, error, fetch.account)
        ):
            fetch.signal = NO_SIGNAL
            self._reports.end(fetch)
            outcome.end(Verdict.DEFER, error.reason, str(error), backoff(outcome.attempts))
            raise NoResponse from None
        self._reports.end(fetch)
        if isinstance(error, Blocked) and error.response is not None:
            outcome.fetch.status, outcome.fetch.size = error.response.status, error.response.size

    async def _redirected(self, fetch: ClaimedFetch) -> None:
        """Raises Moved if the target of the redirect waits for a claim of its own, and AnothersPage
        if it is the page of another request."""
        outcome = fetch.outcome
        outcome.fetch.redirects = [*fetch.trail.hops]
        outcome.target = outcome.place_of(host_of(outcome.fetch.redirects[-1].url))
        stays, fetch.stays = fetch.stays, False
        if self._reports.moves(outcome.host, outcome.target) and not stays:
            outcome.record = with_hops(outcome.record, outcome.fetch.redirects)
            outcome.end(Verdict.REDIRECT)
            raise RedirectWaits
        if not await self._may_go(fetch, in_place=True):
            raise AnothersPage

    async def _check_target(self, fetch: ClaimedFetch, url: str) -> None:
        """Raises AnothersPage if a page of the browser leads to the page of another request."""
        if not fetch.request.options.actions and not await self._may_go(fetch, url):
            raise AnothersPage

    async def _may_go(self, fetch: ClaimedFetch, url: str = "", *, in_place: bool = False) -> bool:
        """Whether the request may continue to the target of its last redirect, or to ``url``, to
        which a page leads: targets pass the filter of duplicates, as links do. If not, the outcome
        has ended: as a duplicate, if the task has admitted the target; or it waits for the request
        that fetches it. ``in_place``: it waits here.

        The URLs that led there are its own, so a page may redirect to itself. Only the last of them
        counts as admitted afterwards: other requests may have to pass the others."""
        outcome, crawl, request = fetch.outcome, fetch.crawl, fetch.request
        hops = outcome.fetch.redirects
        if request.dont_filter or crawl.watching is not None:
            return True
        ways = [Trail(request, hops[:number]).next_request() for number in range(1, len(hops) + 1)]
        if url:
            ways.append(copy.copy(request))
            ways[-1].url, ways[-1].fragment, ways[-1].method, ways[-1].body = url, "", "GET", None
        rids = [outcome.rid, *(crawl.rid_of(way) for way in ways)]
        before, target, url = rids[-2], rids[-1], ways[-1].url
        outcome.fetch.landing = None if target == outcome.rid else (target, url)
        if target in rids[:-1]:
            return True
        timeout = min(limits_of(request, crawl.settings).timeout, MAX_HOLD)
        lasts = round(1000 * timeout) + RESERVED_MS
        asked = Target(outcome.task, outcome.rid, target, url, lasts, before)
        while (waits := await self._permits.follow(asked)) > 0 and in_place:
            await asyncio.sleep(POLL / 1000)
        if waits:
            outcome.fetch.landing = None
        if waits > 0:
            delay = max(POLL, min(waits, MAX_POLL))
            outcome.end(Verdict.DEFER, DUPLICATE, "another request fetches its target", delay)
        elif waits < 0:
            outcome.end(Verdict.DONE, DUPLICATE, f"of {url[:MAX_DETAIL]}, to which it redirects")
            outcome.results.duplicates, outcome.fetch.status = 1, hops[-1].status if hops else None
        return waits == 0


class RedirectWaits(BaseException):
    """The target of a redirect waits for a claim of its own; the outcome has ended."""


class AnothersPage(BaseException):
    """The outcome has ended because its page is another request's. It is no Exception, as
    Redirected."""


def download(downloader: Downloader, fetch: CrawlFetch) -> Awaitable[Response]:
    """The innermost layer of a fetch, which sends its request."""
    crawl = fetch.crawl
    context = FetchContext(
        *(crawl.spider, crawl.cookies, crawl.allows, fetch.account, fetch.check, fetch.trail),
        *(fetch.send_time, fetch.rid, fetch.proxy),
    )
    return downloader.fetch(fetch.asked, crawl.settings, context)


def _renewed(fetch: ClaimedFetch) -> Request:
    """The request as it was before its middlewares: their changes are for one target."""
    request = Request.decode(fetch.outcome.record)
    request.downloader = fetch.request.downloader  # that may have been chosen here
    return request


def share_cookies(outcome: Outcome, crawl: TaskCrawl) -> None:
    """Puts changes of the cookie jar into the outcome."""
    if changes := crawl.cookies.changes():
        outcome.fetch.cookies = {**(outcome.fetch.cookies or {}), **changes}
