"""Kept: a page of the store, given to the current code. Nothing is fetched and nothing stored. The
caller keeps databases from being written."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError, FetchError
from crawlframe.node.worker.verdict.failures import authors_trace
from crawlframe.pages.secrets import Secrets
from crawlframe.recorded.difference import readable, snapshot_of, snapshot_of_error
from crawlframe.recorded.isolation import offline, without_effects
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import Spider
from crawlframe.testing.result import Result
from crawlframe.testing.runs import LAST, Given
from crawlframe.testing.trial import Trial


class KeptTrial:
    """Kept pages of one task. Each gets a new object of the spider ``kind``."""

    def __init__(
        self,
        kind: type[Spider],
        arguments: dict[str, Any],
        settings: Settings,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """``loop`` runs the pages; None: one for each, which takes 0.3 ms more. Raises
        CrawlframeError if a node would refuse the spider."""
        self._arguments = arguments
        self._asked = 0
        self._response: Response | None = None
        with offline(), without_effects():
            # A kept page was sent to the holder of a token.
            given = Given(self._find, knows_targets=False)
            run = asyncio.run if loop is None else partial(_run_in, loop)
            self._trial = Trial(kind, given, arguments, settings=settings, tokens=False, run=run)

    def run(self, request: Request, response: Response) -> dict[str, Any]:
        """Returns the snapshot of the page's results; if the callback raises, ``trace`` is the
        traceback of its code. Raises CrawlframeError if the page cannot be given to this code."""
        self._asked, self._response = 0, response
        with offline() as tried, without_effects():
            result = self._trial.attempt(request, LAST)
        if tried:
            raise CrawlframeError(f"its code went to {tried[0]}, which is not done for a trial")
        secrets = Secrets()
        secrets.learn_arguments(self._arguments)
        if isinstance(result, Result):
            return snapshot_of(result, secrets)
        trace = readable(secrets.text(authors_trace(result)))
        return {**snapshot_of_error(result, secrets), "trace": trace}

    def _find(self, wanted: Request) -> Response:
        self._asked += 1
        if self._asked > 1 or self._response is None:
            raise FetchError(f"{wanted.url}: nothing is fetched when a kept page is tried")
        return self._response


def _run_in(loop: asyncio.AbstractEventLoop, page: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Runs a page. What its code leaves running does not run on with the next one."""
    try:
        return loop.run_until_complete(page)
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
