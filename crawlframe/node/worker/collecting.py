"""Collecting: the collector of a request, as its task wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawlframe.errors import FetchError
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.fetch.usage_signals import denies
from crawlframe.node.worker.links.sieve import Sieve
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.usage import FOLLOW, INDEX
from crawlframe.run.collector import Collector
from crawlframe.run.link_filters import LinkPage
from crawlframe.run.outcome import Outcome
from crawlframe.spider.task_info import Summary


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
    new, own = outcome.results.earlier is None, crawl.settings

    def make() -> Collector:
        page = LinkPage(
            outcome,
            depth=0 if got is None else request.depth + 1,
            priority=crawl.spec.priority,
            response=response,
            known=sieve.of(outcome.task),
            ends=isinstance(got, Summary),
            again=not new,
            failed=isinstance(got, FetchError),
            nofollow=own.obey_nofollow and denies(response, FOLLOW),
            route=crawl.route,
        )
        return Collector(
            page,
            crawl.filters,
            pipelines=crawl.pipelines if new else None,
            noindex=own.obey_noindex and denies(response, INDEX),
            keeps=crawl.keeps_parts,
        )

    return make
