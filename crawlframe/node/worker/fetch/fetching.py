"""Fetching: the first half of a request's run, from the claim to its response."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from crawlframe import faults
from crawlframe.errors import Blocked, ConnectionLost, FetchError, ProxyFailed
from crawlframe.fetch.context import FetchContext
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.memory import Account
from crawlframe.fetch.middlewares import MiddlewareFailed
from crawlframe.fetch.pictures import pictures_of
from crawlframe.fetch.redirects import IDEMPOTENT, Challenged, Redirected, Trail
from crawlframe.fetch.send_time import SendTime
from crawlframe.frontier.records import ANSWERS, NO_SIGNAL, Claimed, Signal
from crawlframe.links import host_of
from crawlframe.node.worker.backoff import backoff
from crawlframe.node.worker.callbacks import Callbacks, MiddlewareWatch
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.node.worker.failures import StatusError
from crawlframe.node.worker.fetch.addresses import AddressReports
from crawlframe.node.worker.fetch.memory_waits import MemoryWaits
from crawlframe.node.worker.fetch.page_reuse import Shared, Sharing
from crawlframe.node.worker.fetch.proxies import ProxySource, find_way, retire_session
from crawlframe.node.worker.fetch.usage_signals import Terms
from crawlframe.node.worker.page_source import PageSource
from crawlframe.node.worker.permits import HostPermits, LocalPermits
from crawlframe.node.worker.replay import KEPT_HOST, NotKept, Replay
from crawlframe.node.worker.robots.guard import RobotsCheck, RobotsGuard
from crawlframe.node.worker.robots.side_trips import Holds
from crawlframe.node.worker.robots.site_files import Elsewhere, Step, Wait
from crawlframe.node.worker.robots.tdm_guard import TdmCheck, TdmGuard
from crawlframe.node.worker.signalling import Judge, signal_of_error
from crawlframe.node.worker.targets import AnothersPage, may_go
from crawlframe.outcome import CHALLENGED, Outcome, Verdict
from crawlframe.proxies.place import place_of
from crawlframe.proxies.proxy import Proxy
from crawlframe.record import Errand, with_errand, with_hops, without_errand
from crawlframe.rendered import is_held
from crawlframe.request import Request
from crawlframe.response import Response

Sent = Callable[[Claimed, float], None]  # the request left so many seconds ago
NEVER = -math.inf  # for one that does not leave
MAX_CHALLENGES = 3  # for which a request goes back; it answers further ones at once


class Fetching:
    """The fetches of one worker. ``callbacks`` knows the slow callbacks, and marks middlewares that
    run; ``fetched`` is called for each fetch that is over, with what it says about its host.
    ``moves`` is called with the hosts of a request and of a redirect's target: whether the target
    waits for a claim of its own. ``clock`` returns seconds."""

    def __init__(
        self,
        downloader: Downloader,
        callbacks: Callbacks,
        fetched: Callable[[Claimed, Signal], None] = lambda claimed, signal: None,
        clock: Callable[[], float] = time.perf_counter,
        robots: RobotsGuard | None = None,
        moves: Callable[[str, str], bool] = lambda host, target: False,
        user_agent: str = "",
        sent: Sent = lambda claimed, ago: None,
        replay: Replay | None = None,
        permits: HostPermits | None = None,
        proxies: ProxySource | None = None,
        pages: PageSource | None = None,
    ) -> None:
        """``robots``: of spiders that obey robots.txt; None: it is not asked for. ``user_agent``:
        that of requests whose spider names none. ``sent`` is called when a request leaves that
        has a time before which it must not, or is not to leave. ``replay``: the development cache,
        if it is used. ``permits``: of inline fetches; None: there is no frontier. ``proxies``:
        None: requests that go through the pool are not sent. ``pages``: the store of pages."""
        self._proxies, self._downloader = proxies, downloader
        self._robots = robots
        self._tdm = None if robots is None else TdmGuard(robots)
        self._moves = moves
        self._sent = sent
        self._terms = Terms(user_agent)
        self._replay = replay
        self.permits = permits or LocalPermits()
        self._callbacks = callbacks
        self._fetched = fetched
        self._clock = clock
        self._memory_waits = MemoryWaits()
        self._holds = Holds(clock)
        self._addresses = AddressReports(downloader)
        self._sharing = Sharing(pages)

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
        url = outcome.redirects[-1].url if outcome.redirects else request.url
        apart = claimed.host.startswith(KEPT_HOST)
        if claimed.homeless and not apart:
            await self._addresses.tell(outcome, url)
            return None
        route = crawl.route(request)
        source = None if apart else self._proxies
        if source is not None and not await find_way(source, outcome, claimed, route):
            return None
        shared = Shared() if apart else await self._sharing.find(outcome, crawl, request)
        if claimed.due is not None and shared.spares_fetch:  # the host's delay does not count
            self._sent(claimed, NEVER)
        if shared.waits:
            return None
        way = partial(may_go, self.permits.follow, outcome, crawl, request)
        if outcome.redirects and not await way():
            if claimed.due is not None:
                self._sent(claimed, NEVER)
            return None
        account.in_advance = outcome.rid in self._memory_waits
        sent = request
        paced = claimed.due is not None and claimed.refusals < MAX_CHALLENGES
        trail = Trail(request, outcome.redirects, paced=paced)

        async def going(url: str) -> None:
            if not await way(url):
                raise AnothersPage

        trail.going = None if request.options.actions else going
        send_time = self._send_time(claimed)
        watch = MiddlewareWatch(self._callbacks, outcome.rid, crawl.spec.spider)
        judge, replay = Judge(crawl, watch.in_loop), self._replay

        async def download(asked: Request) -> Response:
            nonlocal sent
            sent, trail.hops = asked, [*outcome.redirects]
            if replay is not None and (kept := replay.find(asked, crawl, trail)) is not None:
                outcome.budget = None  # nothing is fetched
                return kept
            if shared.response is not None:
                account.settle(len(shared.response.body))
                return shared.response
            if apart:
                raise NotKept
            if outcome.lent:  # a middleware has fetched from this host in our slot, and our time
                outcome.lent = False
                async with self.permits.take(crawl, outcome.limited_at, 0.0, own=True):
                    pass
            check = self.check_for(asked, crawl, send_time, outcome.via)
            context = FetchContext(
                spider=crawl.spider,
                jar=crawl.cookies,
                allowed=crawl.allows,
                account=account,
                check=check,
                trail=trail,
                send_time=send_time,
                rid=outcome.rid,
                proxy=outcome.via,
            )
            transfer = self._downloader.fetch(shared.ask(asked), crawl.settings, context)
            try:
                transfer = shared.complete(transfer, asked)
                response = await judge.of(asked, transfer, send_time.elapsed)
            except Redirected:
                if replay is not None:
                    replay.keep_redirect(asked, trail)
                raise
            if replay is not None and judge.signal.kind in ANSWERS:  # neither refused nor blocked
                replay.keep(asked, response, crawl)
            if crawl.middlewares is not None:
                outcome.received = response
            if check is not None:
                response.robots = check.rules
                if isinstance(check, TdmCheck):
                    response.reservation = check.reservations.find(response.url)
            return response

        async def next_hop() -> Response:
            asked = trail.next_request()
            if crawl.middlewares is None:
                return await download(asked)
            response = await crawl.middlewares.fetch(asked, download, watch)
            account.settle(len(response.body))  # also for a response that a middleware made
            return response

        response = None
        try:
            faults.at("fetch.before", ConnectionLost)
            while response is None:
                try:
                    response = await next_hop()
                except Redirected:
                    outcome.redirects = trail.hops
                    outcome.target = outcome.place_of(host_of(trail.hops[-1].url))
                    if self._moves(outcome.host, outcome.target) and not (
                        replay is not None and replay.goes_on(trail.next_request())
                    ):
                        outcome.signal = judge.signal
                        outcome.fetch_ms = self._end(claimed, send_time, outcome.signal)
                        outcome.cookies = crawl.cookies.changes()
                        outcome.record = with_hops(outcome.record, outcome.redirects)
                        outcome.end(Verdict.REDIRECT)
                        return None
                    if not await way(in_place=True):
                        raise AnothersPage from None
                    if crawl.middlewares is not None:  # what they changed was for that hop
                        again = Request.decode(outcome.record)
                        again.downloader = request.downloader  # that may have been chosen here
                        trail = Trail(again, trail.hops, paced=paced)
            faults.at("fetch.after", ConnectionLost)
        except AnothersPage:  # the outcome has ended
            outcome.signal, outcome.cookies = judge.signal, crawl.cookies.changes()
            outcome.fetch_ms = self._end(claimed, send_time, outcome.signal)
            return None
        except Wait as wait:
            self._holds.hold(outcome, wait)
            return None
        except NotKept:  # it waits for its host, as it would have without the cache
            outcome.target, outcome.left = place_of(host_of(url), route), outcome.record
            outcome.end(Verdict.REDIRECT)
            return None
        except Challenged:
            outcome.signal = judge.signal
            outcome.fetch_ms = self._end(claimed, send_time, outcome.signal)
            outcome.cookies = crawl.cookies.changes()
            outcome.end(Verdict.RELEASE, CHALLENGED)
            return None
        except Elsewhere as elsewhere:
            home = outcome.place_of(outcome.host)
            await self._send(outcome, elsewhere.errand._replace(home=home))
            return None
        except (FetchError, MiddlewareFailed) as error:
            excused = isinstance(error, FetchError) and (
                (sent.method in IDEMPOTENT or crawl.retries(request) > 0)
                and self._memory_waits.excuses(outcome.rid, error, account)
            )
            outcome.signal, outcome.slot = NO_SIGNAL if excused else judge.signal, False
            outcome.fetch_ms = self._end(claimed, send_time, outcome.signal)
            retire_session(outcome, crawl, request)
            outcome.cookies = crawl.cookies.changes()
            if isinstance(error, FetchError):
                outcome.pictures = pictures_of(error.response or error)
            if excused and isinstance(error, FetchError):
                outcome.end(Verdict.DEFER, error.reason, str(error), backoff(outcome.attempts))
                return None
            if isinstance(error, Blocked) and error.response is not None:
                outcome.status, outcome.size = error.response.status, error.response.size
            raise
        outcome.signal = judge.signal
        if crawl.settings.ip_concurrency or crawl.settings.ip_delay:
            address = self._addresses.new_of(claimed.host, response)
            outcome.signal = judge.signal._replace(address=address)
        # Hosts of slow callbacks keep their slots: otherwise they would occupy all slots of the
        # workers. So do those whose page a callback uses: they would occupy all of the browser.
        outcome.slot = is_held(response) or self._callbacks.is_slow(outcome.task, outcome.callback)
        outcome.fetch_ms = self._end(claimed, send_time, outcome.signal, outcome.slot)
        outcome.status, outcome.size = response.status, response.size
        outcome.pictures = pictures_of(response)
        retire_session(outcome, crawl, request)
        outcome.cookies = crawl.cookies.changes()
        if outcome.redirects:
            Trail(request, outcome.redirects).complete(response)
        judge.check()
        if not crawl.handles(sent, response.status):
            raise StatusError(response, response.status in crawl.settings.retry_statuses)
        self._terms.read(response, sent, outcome, crawl.settings)
        if response.file is not None:
            outcome.files.append(response.file)
        await self._sharing.take_over(outcome, crawl, request, shared, response)
        return response

    def check_for(
        self,
        request: Request,
        crawl: TaskCrawl,
        send_time: SendTime | None = None,
        proxy: Proxy | None = None,
        *,
        in_place: bool = False,
    ) -> RobotsCheck | TdmCheck | None:
        """The check of each URL before it is sent; None if the spider obeys no robots.txt. The
        rest is as in ``SiteFiles.read``."""
        if self._robots is None or self._tdm is None or not crawl.settings.robots:
            return None
        check = self._robots.check_for(request, crawl.settings, send_time, proxy, in_place=in_place)
        return check if crawl.settings.purpose is None else TdmCheck(check, self._tdm)

    async def run_errand(
        self, outcome: Outcome, errand: Errand, crawl: TaskCrawl, claimed: Claimed
    ) -> None:
        """Makes a step of the errand that has brought the request to this host. The outcome has
        ended then: the request goes on, or home."""
        if claimed.homeless:
            await self._addresses.tell(outcome, errand.url)
            return
        if self._proxies is not None and not await find_way(
            self._proxies, outcome, claimed, outcome.route
        ):
            return
        step, send_time = Step(None), self._send_time(claimed)
        if self._robots is not None and crawl.settings.robots:
            try:
                step = await self._robots.files.go_on(errand, send_time, outcome.via)
            except ProxyFailed as error:
                outcome.signal, outcome.detour = signal_of_error(error), True
                self._end(claimed, send_time, outcome.signal)
                outcome.end(Verdict.RELEASE, error.reason, str(error))
                return
        outcome.signal, outcome.status = step.signal, step.status
        spent = self._end(claimed, send_time, outcome.signal)
        outcome.fetch_ms = spent if step.sent else 0
        await self._send(outcome, step.errand)

    async def _send(self, outcome: Outcome, errand: Errand | None) -> None:
        """Sends the request on an errand; home, if that is None."""
        here = outcome.errand
        while errand is not None and not self._moves(outcome.host, host_of(errand.url)):
            assert self._robots is not None
            errand = (await self._robots.files.go_on(errand, proxy=outcome.via)).errand
        if errand is None and here is None:
            outcome.end(Verdict.RELEASE)
            return
        before = outcome.record
        if errand is not None:
            outcome.target = outcome.place_of(host_of(errand.url))
            outcome.record = with_errand(before, errand)
        else:
            assert here is not None
            outcome.target, outcome.record = here.home, without_errand(before)
        outcome.left = before if here is not None else b""
        outcome.end(Verdict.REDIRECT)

    def _send_time(self, claimed: Claimed) -> SendTime:
        if claimed.due is None:
            return SendTime(clock=self._clock)
        return SendTime(claimed.due, partial(self._sent, claimed, 0.0), self._clock)

    def _end(
        self, claimed: Claimed, send_time: SendTime, signal: Signal, keep_slot: bool = False
    ) -> int:
        """Reports the end of a fetch. Returns the milliseconds that it took."""
        if not keep_slot:
            self._fetched(claimed, signal)
        return round(send_time.elapsed() * 1000)
