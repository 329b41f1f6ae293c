"""Kept: a page of the store, given to the current code. Nothing is fetched and nothing stored. The
caller keeps databases from being written."""

from __future__ import annotations

from typing import Any

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError, FetchError
from crawlframe.node.worker.verdict.failures import authors_trace
from crawlframe.recorded.difference import readable, snapshot_of, snapshot_of_error
from crawlframe.recorded.isolation import offline, without_effects
from crawlframe.recorded.secrets import Secrets
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider
from crawlframe.testing.result import Result
from crawlframe.testing.runs import LAST, Given
from crawlframe.testing.trial import Trial


def try_page(
    kind: type[Spider],
    arguments: dict[str, Any],
    request: Request,
    response: Response,
    settings: Settings,
) -> dict[str, Any]:
    """Returns the snapshot of the page's results; if the callback raises, ``trace`` is the
    traceback of its code. Raises CrawlframeError if the page cannot be given to this code."""
    secrets, asked = Secrets(), list[str]()
    secrets.learn_arguments(arguments)

    def find(wanted: Request) -> Response:
        asked.append(wanted.url)
        if len(asked) > 1:
            raise FetchError(f"{wanted.url}: nothing is fetched when a kept page is tried")
        return response

    with offline() as tried, without_effects():
        # A kept page was sent to the holder of a token.
        given = Given(find, knows_targets=False)
        trial = Trial(kind, given, arguments, settings=settings, tokens=False)
        result = trial.attempt(request, LAST)
    if tried:
        raise CrawlframeError(f"its code went to {tried[0]}, which is not done for a trial")
    if isinstance(result, Result):
        return snapshot_of(result, secrets)
    trace = readable(secrets.text(authors_trace(result)))
    return {**snapshot_of_error(result, secrets), "trace": trace}
