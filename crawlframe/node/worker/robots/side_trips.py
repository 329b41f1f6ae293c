"""SideTrips: requests that a file about their host sends elsewhere, or back to the frontier."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of
from crawlframe.errors import ProxyFailed
from crawlframe.node.worker.crawl.stage import ClaimedFetch, NoResponse
from crawlframe.node.worker.robots.guard import RobotsGuard
from crawlframe.node.worker.robots.site_files import RETRY_SECONDS, Elsewhere, FileStep, Wait
from crawlframe.node.worker.verdict.signals import FetchReports, signal_of_error
from crawlframe.request.record import Errand, with_errand, without_errand
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict

MAX_HOLDS = 10_000  # requests remembered


class SideTrips:
    """Side trips of one worker. ``robots`` reads the files; None: there are none. ``turn_at``: the
    turn of a claim at the host of another URL. ``clock`` returns seconds."""

    def __init__(
        self,
        robots: RobotsGuard | None,
        turn_at: Callable[[ClaimedFetch, str], AbstractAsyncContextManager[object]],
        reports: FetchReports,
        clock: Callable[[], float],
    ) -> None:
        self._robots = robots
        self._turn_at = turn_at
        self._reports = reports
        self._clock = clock
        # rid -> when the frontier may let it go
        self._until: BoundedDict[bytes, float] = BoundedDict(MAX_HOLDS)

    async def begin(self, fetch: ClaimedFetch, why: Wait | Elsewhere) -> None:
        """The request goes back while a file is not known, or to the host of a file."""
        if isinstance(why, Wait):
            self._hold(fetch.outcome, why)
        else:
            home = fetch.outcome.place_of(fetch.outcome.host)
            await self._send(fetch, why.errand._replace(home=home))

    async def go_on(self, fetch: ClaimedFetch) -> Response:
        """Makes, in place of a fetch, a step of the errand that has brought the request to this
        host. Then the request continues, or returns to its own host. Raises NoResponse."""
        outcome, step = fetch.outcome, FileStep(None)
        assert outcome.side_trip is not None
        if self._robots is not None and fetch.crawl.settings.robots:
            try:
                step = await self._robots.files.go_on(
                    outcome.side_trip, fetch.send_time, fetch.proxy
                )
            except ProxyFailed as error:
                fetch.signal, outcome.fetch.retry_proxy = signal_of_error(error), True
                self._reports.end(fetch)
                outcome.end(Verdict.RELEASE, error.reason, str(error))
                raise NoResponse from None
        fetch.signal, outcome.fetch.status = step.signal, step.status
        self._reports.end(fetch)
        if not step.sent:
            outcome.fetch.fetch_ms = 0
        await self._send(fetch, step.errand)
        raise NoResponse

    def _hold(self, outcome: Outcome, wait: Wait) -> None:
        """The request goes back to the head of its lane, where the frontier holds all of its host;
        its slot is freed with that. It is put off instead where the frontier does not hold it: for
        another host than its own, while another worker reads the file, or if it comes back early,
        as requests of a task do that was opened by an older version."""
        now = self._clock()
        early = self._until.pop(outcome.rid, 0.0) > now
        if wait.host != outcome.host or wait.shortly or early:
            delay = math.ceil(1000 * max(wait.seconds, RETRY_SECONDS))
            why = f"the robots.txt of {wait.host} is not known yet"
            outcome.end(Verdict.DEFER, "robots", why, delay)
            return
        if wait.seconds:
            self._until[outcome.rid] = now + 0.9 * wait.seconds
        outcome.end(Verdict.RELEASE)

    async def _send(self, fetch: ClaimedFetch, errand: Errand | None) -> None:
        """Sends the request on an errand; home, if that is None."""
        outcome = fetch.outcome
        here, via = outcome.side_trip, outcome.fetch.via
        while errand is not None and not self._reports.moves(outcome.host, host_of(errand.url)):
            assert self._robots is not None
            async with self._turn_at(fetch, errand.url):
                errand = (await self._robots.files.go_on(errand, fetch.send_time, via)).errand
        if errand is None and here is None:
            outcome.end(Verdict.RELEASE)
            return
        if errand is not None:
            outcome.target = outcome.place_of(host_of(errand.url))
            outcome.record = with_errand(outcome.record, errand)
        else:
            assert here is not None
            outcome.target, outcome.record = here.home, without_errand(outcome.record)
        outcome.end(Verdict.REDIRECT)
