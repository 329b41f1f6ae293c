"""Stage: a layer around the fetches of a crawl, as a middleware is a layer of its author's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from crawlframe.fetch.body.memory import Account
from crawlframe.fetch.journey.context import SendTime, TurnAt
from crawlframe.fetch.journey.trail import Check, Trail
from crawlframe.frontier.client.records import NO_SIGNAL, Claimed, Signal
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.pages.stored import digest_of, renewed, tags_of
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.response.stored_page import StoredPage
from crawlframe.run.outcome import Outcome


@dataclass(slots=True, eq=False)
class CrawlFetch:
    """One fetch of a crawl on its way through the stages. ``asked``: the request for the next
    stage. ``turn_at``: the fetch's turn at the host of a URL, where a file about its host is read
    within it after a redirect; None: the request goes there. ``check`` is awaited with each URL
    before it is sent. ``signal``: the last download's report about its host. ``misjudged``: the
    error of the spider's ``is_blocked``. ``stays``: the redirect's target needs no claim of its
    own."""

    crawl: TaskCrawl
    rid: bytes
    asked: Request
    trail: Trail
    account: Account
    send_time: SendTime = field(default_factory=SendTime)
    proxy: ChosenProxy | None = None
    turn_at: TurnAt | None = None
    check: Check | None = None
    signal: Signal = NO_SIGNAL
    misjudged: Exception | None = None
    stays: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class ClaimedFetch(CrawlFetch):
    """The fetch of a claimed request. ``request`` is as its spider made it; ``stored``: its copy in
    the store of pages."""

    outcome: Outcome
    request: Request
    claimed: Claimed
    stored: StoredCopy | None = None

    @property
    def url(self) -> str:
        """The URL of the claim: the request's own, or the target of the last redirect."""
        hops = self.outcome.fetch.redirects
        return hops[-1].url if hops else self.request.url


F = TypeVar("F", bound=CrawlFetch)
Next = Callable[[F], Awaitable[Response]]


class Stage(Protocol[F]):
    """One layer: it calls the next stage, or answers without."""

    def __call__(self, fetch: F, call_next: Next[F]) -> Awaitable[Response]: ...


class NoResponse(BaseException):
    """A fetch ends without a response: its outcome has ended, and the request waits or goes
    elsewhere. Not an Exception, so that a middleware that expects errors lets it pass."""


def around(stages: Iterable[Stage[F]], fetch: Next[F]) -> Next[F]:
    """Returns the fetch within these stages, the first outermost."""
    for stage in reversed([*stages]):
        fetch = partial(stage, call_next=fetch)
    return fetch


@dataclass(slots=True)
class StoredCopy:
    """``response``: from the store, so nothing is fetched. ``previous``: the page as it was kept
    last, with its body. ``waits``: the outcome has ended, because another request fetches it."""

    response: Response | None = None
    previous: StoredPage | None = None
    body: bytes | None = None
    waits: bool = False
    conditional: bool = False

    def ask(self, request: Request) -> Request:
        """The request as it is sent: conditional, if the page may have stayed as it was."""
        page = self.previous
        more = {}
        # A page that was reached by a redirect says nothing of the URL that redirected.
        if self.conditional and page is not None and self.body is not None:
            if page.etag:
                more["If-None-Match"] = tags_of(page.etag)
            if page.modified:
                more["If-Modified-Since"] = page.modified
        self.conditional = bool(more) and page is not None and page.url == request.url
        if not self.conditional:
            return request
        return request.replace(headers={**request.headers, **more})

    def complete(self, response: Response, request: Request) -> Response:
        """Returns the response; in place of a 304, the stored page."""
        page, body = self.previous, self.body
        if page is None or response.file is not None:
            return response
        if response.status == 304 and self.conditional and body is not None:
            return renewed(page, request, body, response)
        if response.status == page.status:
            response.unchanged = digest_of(response.body) == page.digest
        return response
