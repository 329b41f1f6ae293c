"""The files and pictures of a page that are in the stores already."""

from __future__ import annotations

from crawlframe.errors import FetchError
from crawlframe.fetch.body.pictures import pictures_of
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next
from crawlframe.response.response import Response


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
