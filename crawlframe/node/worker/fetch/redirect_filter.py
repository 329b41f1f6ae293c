"""Targets of redirects: they pass the filter of duplicates, as links do."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable

from crawlframe.fetch.downloader import limits_of
from crawlframe.fetch.journey.trail import Trail
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.commit.participants import MAX_DETAIL
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.verdict.backoff import MAX_POLL, POLL, RESERVED_MS
from crawlframe.request.request import Request
from crawlframe.run.outcome import DUPLICATE, Outcome, Verdict

MAX_HOLD = 60.0  # seconds: a link to the target that was found meanwhile waits for so long


class AnothersPage(BaseException):
    """Raised when the outcome has ended because its page is another request's. It is no Exception,
    as Redirected."""


async def may_go(
    follow: Callable[[Target], Awaitable[int]],
    outcome: Outcome,
    crawl: TaskCrawl,
    request: Request,
    url: str = "",
    *,
    in_place: bool = False,
) -> bool:
    """Whether the request may continue to the target of its last redirect, or to ``url``, to which
    a page leads. If not, the outcome has ended: as a duplicate, if the task has admitted the
    target; or it waits for the request that fetches it. ``in_place``: it waits here.

    The URLs that led there are its own, so a page may redirect to itself. Only the last of them
    counts as admitted afterwards: other requests may have to pass the others."""
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
    while (waits := await follow(asked)) > 0 and in_place:
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
