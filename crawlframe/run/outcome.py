"""Outcome: the result of one run of a request, not yet written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from crawlframe.base.limits import (
    ALIAS,
    UNFOLLOWED,
    ByteBudget,
    TrapSighting,
)
from crawlframe.base.secret import without_logins
from crawlframe.base.stats import PageStats
from crawlframe.files.saved_file import SavedFile
from crawlframe.items.models import ModelItem
from crawlframe.pages.copy import PageCopy
from crawlframe.proxies.place import place_of
from crawlframe.proxies.proxy import ChosenProxy, Proxy
from crawlframe.request.record import Errand, Hop, hops_of, read_head
from crawlframe.request.request import Admission
from crawlframe.response.picture import Picture
from crawlframe.run.reasons import CANCELLED, EXCLUDED

if TYPE_CHECKING:
    from crawlframe.near.fingerprint import ComparedPage
    from crawlframe.pages.copy import Results
    from crawlframe.pages.reparse import Replacement
    from crawlframe.render.yielded import Attempt
    from crawlframe.response.response import Response
    from crawlframe.revisit.visit import Visit


class Verdict(StrEnum):
    """The next place of a request."""

    DONE = "done"
    ERROR = "error"
    RETRY = "retry"
    DEFER = "defer"  # like RETRY, but without counting an attempt
    PARK = "park"
    RELEASE = "release"
    REDIRECT = "redirect"  # to another host, or back to its own

    @property
    def final(self) -> bool:
        """True if the request ends, with a ledger row."""
        return self in (Verdict.DONE, Verdict.ERROR)


@dataclass(slots=True)
class FetchOutcome:
    """The part of the fetch: its answer, and its effects on the host, the proxy and the page."""

    status: int | None = None
    size: int = 0  # bytes of the body
    fetch_ms: int = 0
    redirects: list[Hop] = field(default_factory=list)  # of earlier claims too
    landing: tuple[bytes, str] | None = None  # rid and URL of the last redirect's target
    received: Response | None = None  # before middlewares changed it, if there are some
    usage: dict[str, Any] | None = None  # the page's conditions of use, as they are recorded
    exchange: dict[str, Any] | None = None  # of an error: its headers, as they are recorded
    cookies: dict[str, str] | None = None  # the task's cookies that this run changed
    # Its report about its host: a Signal of frontier/client/records.py.
    signal: tuple[int, float, str] = (0, 0, "")
    slot: bool = True  # whether it has a slot of its host: until it is over
    slot_lent: bool = False  # an inline fetch has used that slot
    via: ChosenProxy | None = None  # the proxy that it goes through
    retry_proxy: bool = False  # the request goes back to try another proxy
    budget: ByteBudget | None = None  # set if the task has a limit of bytes
    inline_bytes: dict[str, int] = field(default_factory=dict)  # of inline fetches, by host
    key: bytes = b""  # of the page, where that may come from the store
    reserved: bool = False  # others wait for the page
    attempt: Attempt | None = None  # set if the page is rendered when it must be
    near: ComparedPage | None = None  # set if the text of the page was compared


@dataclass(slots=True)
class CallbackResults:
    """The results of the callback, counted and decided. ``fingerprints`` belong to ``follow_ups``,
    in the same order."""

    items: list[bytes] = field(default_factory=list)  # JSON
    models: dict[int, ModelItem] | None = None  # of the items that are model instances
    proxies: list[Proxy] | None = None  # for the pool
    unfit: bool = False  # an item was left out that lacks a field, or does not fit its class
    follow_ups: list[Admission] = field(default_factory=list)
    fingerprints: list[bytes] = field(default_factory=list)
    duplicates: int = 0  # follow-ups that were dropped, because the task knows them
    aliased: set[bytes] | None = None  # rids of follow-ups that rules of aliases changed
    stats: PageStats | None = None
    closing: str = ""  # why the task is closed here
    files: list[SavedFile] = field(default_factory=list)  # in the file store already
    pictures: list[Picture] = field(default_factory=list)  # of the page in a browser
    page: PageCopy | None = None  # to be kept
    source: Replacement | None = None  # set if a kept page was parsed
    signature: bytes = b""  # of the code that runs the callback, if it need not run again
    requests: list[bytes] | None = None  # records of all that it yields, if asked for
    earlier: Results | None = None  # its earlier results, which it would yield again
    trap: TrapSighting | None = None
    visit: Visit | None = None  # set if the task is a round of a watch
    # An error of authors' code while its other results are kept, and the reason for it.
    failure: tuple[BaseException, str] | None = None

    def drop(self) -> None:
        """Drops the callback's results: the request continues, or ends in error."""
        self.items, self.follow_ups, self.fingerprints, self.duplicates = [], [], [], 0
        self.stats, self.closing, self.models, self.files = None, "", None, []
        self.proxies = self.failure = None
        if self.visit is not None:
            self.visit.drop()


@dataclass(slots=True)
class Outcome:
    """One run of a request: the request, its next state, and the parts of the fetch and of the
    callback."""

    rid: bytes
    task: int
    host: str
    record: bytes
    attempts: int
    deliveries: int
    url: str = ""
    callback: str = ""
    depth: int = 0
    version: str = ""  # of the code that ran
    route: str = ""  # of its place, if it goes through proxies
    claim: int = 0  # the number of the claim that returned it
    parent: int = 0  # a task that knows requests, which this one then does not make
    side_trip: Errand | None = None  # why it is at a host that is not its own
    verdict: Verdict = Verdict.DONE
    reason: str = ""
    detail: str = ""
    delay: int = 0  # milliseconds until the next attempt
    target: str = ""  # the host that it goes to
    error_group: int = 0  # of an error: the group that the ledger puts it into
    fetch: FetchOutcome = field(default_factory=FetchOutcome)
    results: CallbackResults = field(default_factory=CallbackResults)

    def take_head(self) -> None:
        """Copies the readable part of an unreadable record. Raises BadRequest."""
        self.url, self.depth, self.callback, _ = read_head(self.record)
        self.fetch.redirects = hops_of(self.record)

    def end(self, verdict: Verdict, reason: str = "", detail: str = "", delay: int = 0) -> Outcome:
        """Set the next state of the request; any verdict but DONE drops the callback's results."""
        self.verdict, self.reason, self.delay = verdict, reason, delay
        self.detail = without_logins(detail)
        if verdict is not Verdict.DONE:
            self.results.drop()
        return self

    def refuse_link(self, reason: str) -> None:
        """Counts a link that is not followed."""
        self.count(UNFOLLOWED + reason)

    def count_known(self, links: Iterable[Admission]) -> None:
        """Counts follow-ups that are dropped, because the task knows them."""
        aliased = self.results.aliased or ()
        for link in links:
            if link.rid in aliased:
                self.refuse_link(ALIAS)
            else:
                self.results.duplicates += 1

    def count(self, counter: str) -> None:
        """Adds 1 to a counter of the task."""
        if self.results.stats is None:
            self.results.stats = PageStats()
        self.results.stats.inc(counter, 1)

    def lends(self, host: str, route: str = "") -> bool:
        """Whether it has a slot of this host, which its inline fetches of the same route use."""
        return self.fetch.slot and self.host == host and self.route == route

    def place_of(self, host: str) -> str:
        """The place where the request waits at another host."""
        return place_of(host, self.route)

    @property
    def cancelled(self) -> bool:
        """True if it ended only because its task was cancelled."""
        return self.verdict is Verdict.ERROR and self.reason == CANCELLED

    @property
    def excluded(self) -> bool:
        """True if politeness ended it, such as a rule of robots.txt."""
        return self.verdict is Verdict.ERROR and self.reason in EXCLUDED
