"""The bytes of a page, which its host may have spent, and its files and pictures in the stores."""

from __future__ import annotations

from crawlframe.base.limits import HOST_BYTE_LIMIT
from crawlframe.errors import FetchError
from crawlframe.fetch.body.pictures import pictures_of
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next, NoResponse
from crawlframe.response.response import Response
from crawlframe.run.outcome import CANCELLED, Verdict


async def take_file(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: the outcome gets the saved file of a response that its callback gets."""
    response = await call_next(fetch)
    if response.file is not None:
        fetch.outcome.results.files.append(response.file)
    return response


async def take_pictures(fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
    """A stage: the outcome gets the pictures of a page, also of one that failed."""
    outcome = fetch.outcome
    try:
        response = await call_next(fetch)
    except FetchError as error:
        outcome.results.pictures = pictures_of(error.response or error)
        raise
    outcome.results.pictures = pictures_of(response)
    return response


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
