"""Reparse: the pages of a task that parses kept pages, and the results that replace their items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from crawlframe.pages.copy import ITEM
from crawlframe.request import record
from crawlframe.request.request import Admission, Request, make_rid, rank_of, root_admission
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.response import Response

# No method of a spider has this name, so a worker of an older release parks these requests.
REPARSE = "reparse:"
PAGES_URL = "pages:"  # of the first request of such a task, which finds the pages
PAGE_URL = "page:"  # the beginning of the URL of a kept page, by its number
# Prefix of the place where the request for a kept page waits. Each has its own, so that no limit of
# a host holds it up.
PAGE_PLACE = "/page/"


class Reparse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pages of one task, or of all tasks of a spider: one of ``task`` and ``spider`` is set.
    ``since``: fetched then or later, in seconds since the epoch. ``last``: the number of the last
    page that is parsed; 0: all, also pages kept while this task runs, until the other task has
    ended. ``key``: the field that identifies items of a page; "": their place. ``sampled``: pages
    that were in samples when the task was submitted; of the others that are done none is kept."""

    task: int = 0
    spider: str = ""
    since: float | None = None
    reason: str | None = None
    callback: str = ""
    key: str = ""
    last: int = 0
    dry_run: bool = False
    follow: bool = False  # requests that the task did not know are fetched
    sampled: int = 0

    @property
    def waits(self) -> bool:
        return self.last == 0


class PageNumbers(NamedTuple):
    """Kept pages that are to be parsed, in order. ``seen``: the number up to which pages were
    looked at: the next question is for those after it. ``is_all``: there never will be others."""

    numbers: list[int]
    seen: int
    is_all: bool


def is_failed(reason: str) -> bool:
    """Whether the request of a page that is kept for this reason ended in error."""
    return reason not in ("", ITEM)


class SourcePage(NamedTuple):
    """A kept page. ``rid`` and ``task``: of the request that brought it. ``problem``: why its body
    cannot be read. ``again``: it may be read later. ``elsewhere``: it can be as soon as the node
    that has it uploads it. ``stored``: the number of its body."""

    number: int
    rid: bytes
    task: int
    url: str  # after redirects
    status: int
    reason: str
    headers: dict[str, Any]  # as PageCopy has them
    address: str
    record: bytes
    body: bytes
    problem: str = ""
    again: bool = False
    elsewhere: bool = False
    stored: int = 0

    @property
    def failed(self) -> bool:
        """Whether its request ended in error."""
        return is_failed(self.reason)

    @property
    def changed(self) -> bool:
        """Whether middlewares have made something else of it, or perhaps an error."""
        return bool(self.headers.get("changed"))

    def response(self, request: Request) -> Response:
        """The response to ``request``. Masked values stay masked."""
        received = [(name, value) for name, value in self.headers.get("received", ())]
        kind = RenderedResponse if self.headers.get("rendered") else Response
        return kind(self.url, self.status, received, self.body, request, address=self.address)


@dataclass(slots=True)
class Replacement:
    """The replacement for the items of a request, of ``rid`` and ``task``. ``still``: its page is
    an error as it was. ``links``: requests that the task did not know."""

    page: int  # the number of the kept page
    rid: bytes
    task: int
    failed: bool
    dry_run: bool
    key: str
    body: int  # the number of the parsed body
    items: list[bytes] = field(default_factory=list)  # JSON
    still: bool = False
    links: int = 0


def first_admission(task: int, priority: int = 0) -> Admission:
    """The request that such a task starts with, in place of that which runs ``start``."""
    first = record.write(PAGES_URL, REPARSE, 0, {})
    return root_admission(task, priority)._replace(record=first)


def page_admission(task: int, page: int, priority: int = 0) -> Admission:
    """The request that parses the kept page of this number."""
    url = f"{PAGE_URL}{page}"
    rid = make_rid(task, url.encode())
    parse = record.write(url, REPARSE, 0, {})
    return Admission(rid, rank_of(0, priority, 0), PAGE_PLACE + rid.hex(), 0, parse)


def page_in(url: str) -> int:
    """The number of the page that this URL means."""
    return int(url.removeprefix(PAGE_URL))
