"""Replay: recorded pages are given to the current code, in the engine of a worker."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import msgspec

from crawlframe import errors
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError, FetchError
from crawlframe.pages.secrets import Secrets
from crawlframe.recorded.difference import snapshot_of, snapshot_of_error
from crawlframe.recorded.folder import Exchange, RecordedPage, Recording, RecordingError
from crawlframe.recorded.isolation import WentOut, offline
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.request import Request
from crawlframe.request.values import body_to_json, request_of_json
from crawlframe.response.browser_response import Captured, Rendered, RenderedResponse
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider
from crawlframe.testing.result import Result
from crawlframe.testing.runs import LAST, Given
from crawlframe.testing.trial import Trial


class NotReplayed(CrawlframeError):
    """A page cannot be replayed with this code: it lacks a callback, asks for an unrecorded page,
    or reaches for the network."""


class Replayed(NamedTuple):
    """``result`` is None if the callback raised ``error``, with the traceback of its author."""

    snapshot: dict[str, Any]
    result: Result | None
    error: BaseException | None = None


class RecordingReplay:
    """The pages of one recording, with the spider ``kind``. Each is replayed on its own, with a new
    object of the spider."""

    def __init__(
        self, recording: Recording, kind: type[Spider], settings: Settings | None = None
    ) -> None:
        self._recording = recording
        self._kind = kind
        self._settings = settings

    def run(self, name: str, *, pipelines: bool = True) -> Replayed:
        """Replays a page. Raises NotReplayed, and RecordingError if it is damaged."""
        page = self._recording.pages.get(name)
        if page is None:
            known = ", ".join(self._recording.pages)
            raise RecordingError(
                f"{self._recording.directory} has no page {name!r}; it has {known}"
            )
        pages = _Pages(self._recording, page)
        refused = False
        found: Result | BaseException
        with offline() as tried:
            try:
                request = None if page.request is None else request_of_json(page.request)
                trial = Trial(
                    self._kind,
                    Given(pages.find),
                    self._recording.head.arguments,
                    pipelines=pipelines,
                    settings=self._settings,
                    renders=True,
                )
                found = trial.attempt(request, LAST)
            except CrawlframeError as problem:
                found, refused = problem, True
        if isinstance(found, RecordingError):
            raise found
        why = pages.missing[0] if pages.missing else str(found) if refused else ""
        if tried:
            why = str(found) if isinstance(found, WentOut) else f"it reached for {tried[0]}"
        error = found if isinstance(found, BaseException) else None
        if why:
            raise NotReplayed(f"recorded page {name} ({page.url}): {why}") from error
        if isinstance(found, Result):
            return Replayed(snapshot_of(found, pages.secrets), found)
        return Replayed(snapshot_of_error(found, pages.secrets), None, found)


class _Pages:
    """The exchanges of one page, and of the other pages where it lacks one: another page may have
    fetched the token that the spider needs."""

    def __init__(self, recording: Recording, page: RecordedPage) -> None:
        self._recording = recording
        self.secrets = Secrets()
        self.missing: list[str] = []
        self._used: dict[tuple[Any, ...], int] = {}
        others = (one for one in recording.pages.values() if one is not page)
        self._own = page.exchanges
        self._others = [exchange for one in others for exchange in one.exchanges]

    def find(self, request: Request) -> Response:
        """Returns the response of a request. Raises FetchError if that was recorded."""
        secrets, body = self.secrets, body_to_json(request.body)
        secrets.learn_from(secrets.url, request.url)
        secrets.learn_from(secrets.sent_body, body)
        secrets.learn_from(secrets.headers, request.headers.items())
        asked = Exchange(secrets.url(request.url), request.method, secrets.sent_body(body))
        rendered = request.downloader == BROWSER
        found = self._find(asked, rendered)
        if found is None:
            self.missing.append(
                f"it asks for {asked.method} {asked.url}, which was not recorded with this page; "
                "record the spider again"
            )
            raise FetchError(self.missing[-1])
        if found.error is not None:
            raise _error_of(found)
        return self._response(found, request)

    def _find(self, asked: Exchange, rendered: bool) -> Exchange | None:
        key = asked.key()
        for exchanges in (self._own, self._others):
            same = [one for one in exchanges if one.key() == key]
            same = [one for one in same if (one.rendered is not None) == rendered] or same
            if same:
                turn = self._used.get(key, 0)
                self._used[key] = turn + 1
                return same[min(turn, len(same) - 1)]
        return None

    def _response(self, found: Exchange, request: Request) -> Response:
        if found.redirect:
            headers = [*found.header_pairs, ("Location", found.redirect)]
            return Response(request.url, found.status, headers, b"", request)
        body = self._recording.body(found.body)
        url = found.final or found.url
        if found.rendered is None:
            return Response(url, found.status, found.header_pairs, body, request)
        response = RenderedResponse(url, found.status, found.header_pairs, body, request)
        response.rendered = Rendered(
            msgspec.convert(copy.deepcopy(found.rendered.captured), list[Captured]),
            copy.deepcopy(found.rendered.results),
            self._recording.body(found.rendered.screenshot),
            self._recording.body(found.rendered.pdf),
        )
        return response


def _error_of(exchange: Exchange) -> FetchError:
    assert exchange.error is not None
    kind = getattr(errors, exchange.error.kind, None)
    error = FetchError(exchange.error.message)
    if isinstance(kind, type) and issubclass(kind, FetchError):
        error = kind.__new__(kind)
        Exception.__init__(error, exchange.error.message)
    if exchange.error.reason:
        error.reason = exchange.error.reason
    return error
