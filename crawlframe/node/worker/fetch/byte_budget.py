"""The bytes that a task may fetch of a host."""

from __future__ import annotations

from crawlframe.base.limits import HOST_BYTE_LIMIT
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next, NoResponse
from crawlframe.response.response import Response
from crawlframe.run.outcome import CANCELLED, Verdict


async def spare_bytes(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: a request whose host has spent its bytes is not fetched. Raises NoResponse."""
    outcome, budget = fetch.outcome, fetch.crawl.budget
    if budget is not None and budget.is_spent(outcome.host):
        outcome.end(Verdict.ERROR, CANCELLED, f"{HOST_BYTE_LIMIT} of {outcome.host}")
        outcome.refuse_link(HOST_BYTE_LIMIT)
        raise NoResponse
    return await call_next(fetch)


async def count_bytes(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage before a download, whose bytes count."""
    fetch.outcome.fetch.budget = fetch.crawl.budget
    return await call_next(fetch)
