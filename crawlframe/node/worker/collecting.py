"""Collecting: the collector of a request, as its task wants it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from crawlframe.collector import Collector
from crawlframe.downloaders import BROWSER
from crawlframe.node.worker.crawl import TaskCrawl
from crawlframe.node.worker.fetch.usage_signals import denies
from crawlframe.node.worker.sieve import Sieve
from crawlframe.outcome import Outcome
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.robots.usage import FOLLOW, INDEX
from crawlframe.task_life import Summary


def collectors(
    outcome: Outcome,
    crawl: TaskCrawl,
    request: Request,
    got: Any,
    response: Response | None,
    sieve: Sieve,
) -> Callable[[], Collector]:
    """Makes collectors for what is yielded for ``got``, which is None for ``start``. What was
    yielded before, and is taken over, has passed through everything."""
    new, own = outcome.earlier is None, crawl.settings
    once = crawl.template
    return partial(
        Collector,
        outcome,
        priority=crawl.spec.priority,
        depth=0 if got is None else request.depth + 1,
        depth_limit=own.depth_limit,
        layers=own.layers,
        allowed=crawl.allows_url if crawl.domains else None,
        known=sieve.of(outcome.task),
        follow=crawl.follow if new else None,
        pipelines=crawl.pipelines if new else None,
        response=response,
        ends=isinstance(got, Summary),
        limits=crawl.links,
        nofollow=own.obey_nofollow and denies(response, FOLLOW),
        noindex=own.obey_noindex and denies(response, INDEX),
        route=crawl.route,
        watching=crawl.watching,
        aliases=crawl.aliases,
        keeps=crawl.keeps_parts,
        browser=own.downloader == BROWSER,
        template=once.page(got) if once is not None and isinstance(got, Response) else None,
    )
