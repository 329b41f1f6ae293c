"""Outcome: the result of one run of a request's callback, collected and not yet written."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from crawlframe.budgets import DEPTH_LIMIT, NOFOLLOW, UNFOLLOWED, ByteBudget, TrapSighting
from crawlframe.errors import BadRequest, DropItem, SpiderError
from crawlframe.files.saved_file import SavedFile
from crawlframe.items import encode_item, is_item, no_item
from crawlframe.model_items import ModelItem, is_model, model_item
from crawlframe.picture import Picture
from crawlframe.proxies.place import limited_at, place_of
from crawlframe.proxies.proxy import Proxy
from crawlframe.record import Errand, Hop
from crawlframe.request import Admission, Request, make_rid
from crawlframe.stats import DROPPED, PageStats
from crawlframe.upsert import Upsert

if TYPE_CHECKING:
    from crawlframe.pipelines import Pipelines
    from crawlframe.response import Response

MAX_ITEMS = 64 << 20  # bytes of JSON of all items of one page
MAX_DELAY = 366 * 24 * 3600  # seconds by which a request may be delayed
CANCELLED = "cancelled"  # the reason of a request that ended because its task was cancelled
CHALLENGED = "challenge"  # why a request goes back that is to be sent again with credentials
# Reasons of requests that politeness ended: without a fetch, or before the callback.
EXCLUDED = frozenset({"robots", "usage"})
DROPPED_NOINDEX = DROPPED + "noindex"  # counts items of pages that say noindex
NO_ERRORS = EXCLUDED | {CANCELLED}  # reasons of rows that are not counted as errors


class Verdict(StrEnum):
    """Where a request goes next."""

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
class Outcome:
    """One run of a request. ``fingerprints`` are those of ``follow_ups``, in the same order."""

    rid: bytes
    task: int
    host: str
    record: bytes
    attempts: int
    deliveries: int
    url: str = ""
    callback: str = ""
    depth: int = 0
    verdict: Verdict = Verdict.DONE
    reason: str = ""
    detail: str = ""
    delay: int = 0  # milliseconds until the next attempt
    status: int | None = None
    size: int = 0  # bytes of the body
    fetch_ms: int = 0
    redirects: list[Hop] = field(default_factory=list)  # those of earlier claims too
    target: str = ""  # the host that it goes to
    errand: Errand | None = None  # why it is at a host that is not its own
    left: bytes = b""  # the record as it was claimed, if the new one may not be longer
    usage: dict[str, Any] | None = None  # what the page says about its use, as it is recorded
    items: list[bytes] = field(default_factory=list)  # JSON
    files: list[SavedFile] = field(default_factory=list)  # in the file store already
    pictures: list[Picture] = field(default_factory=list)  # of the page in a browser
    models: dict[int, ModelItem] | None = None  # those of the items that are model instances
    follow_ups: list[Admission] = field(default_factory=list)
    fingerprints: list[bytes] = field(default_factory=list)
    duplicates: int = 0  # follow-ups dropped by the worker's sieve
    cookies: dict[str, str] | None = None  # the task's cookies that this run changed
    version: str = ""  # of the code that ran
    stats: PageStats | None = None
    closing: str = ""  # why the task is closed here
    # What its fetch says about its host: a Signal of frontier/records.py.
    signal: tuple[int, float, str] = (0, 0, "")
    budget: ByteBudget | None = None  # set if its task has a limit of bytes
    beside: dict[str, int] = field(default_factory=dict)  # host -> bytes of its inline fetches
    slot: bool = True  # whether it has a slot of its host: until its fetch is over
    lent: bool = False  # an inline fetch has used that slot
    route: str = ""  # of its place, if it goes through proxies
    via: Proxy | None = None  # the proxy that it goes through
    detour: bool = False  # it goes back to try another proxy
    trap: TrapSighting | None = None
    # Of an error: the headers that were sent and received, as they are recorded.
    exchange: dict[str, Any] | None = None
    error_group: int = 0  # of an error: the group that the ledger puts it into

    def end(self, verdict: Verdict, reason: str = "", detail: str = "", delay: int = 0) -> Outcome:
        """Set where the request goes next; any verdict but DONE drops what the callback led to."""
        self.verdict, self.reason, self.detail, self.delay = verdict, reason, detail, delay
        if verdict is not Verdict.DONE:
            self.items, self.follow_ups, self.fingerprints, self.duplicates = [], [], [], 0
            self.stats, self.closing, self.models, self.files = None, "", None, []
        return self

    def refuse_link(self, reason: str) -> None:
        """Counts a link that is not followed."""
        if self.stats is None:
            self.stats = PageStats()
        self.stats.inc(UNFOLLOWED + reason, 1)

    def drop_item(self, counter: str) -> None:
        """Counts an item that is not stored."""
        if self.stats is None:
            self.stats = PageStats()
        self.stats.inc(counter, 1)

    def lends(self, host: str, route: str = "") -> bool:
        """Whether it has a slot of this host, which its inline fetches of the same route use."""
        return self.slot and self.host == host and self.route == route

    @property
    def limited_at(self) -> str:
        """The name under which the frontier keeps the limits of its host."""
        return limited_at(self.host, self.route, self.via.id if self.via else 0)

    def place_of(self, host: str) -> str:
        """Where it waits at another host."""
        return place_of(host, self.route)

    @property
    def cancelled(self) -> bool:
        """True if it ended only because its task was cancelled."""
        return self.verdict is Verdict.ERROR and self.reason == CANCELLED

    @property
    def excluded(self) -> bool:
        """True if politeness ended it, such as a rule of robots.txt."""
        return self.verdict is Verdict.ERROR and self.reason in EXCLUDED


class LinkCheck(Protocol):
    """Which links are not followed. A URL is shown to it if it has more characters than ``length``
    or more slashes than ``slashes``."""

    length: int
    slashes: int

    def refuses(self, url: str, taken: int) -> str:
        """Returns the reason for which a new URL is not followed, "" if it is. ``taken``: requests
        that were taken from the same page."""


class Collector:
    """Collects what a callback yields into an outcome."""

    def __init__(
        self,
        outcome: Outcome,
        *,
        priority: int,
        depth: int,
        depth_limit: int,
        allowed: Callable[[str], bool] | None,
        known: tuple[Container[bytes], Container[bytes]] = ((), ()),
        follow: Callable[[Request, Response | None], Request | None] | None = None,
        pipelines: Pipelines | None = None,
        response: Response | None = None,
        ends: bool = False,
        limits: LinkCheck | None = None,
        nofollow: bool = False,
        noindex: bool = False,
        route: Callable[[Request], str] | None = None,
    ) -> None:
        """``depth`` is the depth of the requests yielded here; ``allowed`` returns whether a URL
        may be followed; ``known`` are fingerprints of this task that the ledger has recorded.
        ``follow`` is the spider's own; it and the pipelines are called with ``response``. If
        ``ends`` is true, the task takes no more requests. ``limits`` are asked about new
        links. ``nofollow``: no request is taken; ``noindex``: no item is; both are counted.
        ``route`` returns through which proxies a request goes."""
        self._outcome = outcome
        self._route = route
        self._priority = priority
        self._depth = depth
        too_deep = bool(depth_limit) and depth > depth_limit
        self._refused = DEPTH_LIMIT if too_deep else NOFOLLOW if nofollow else ""
        self._noindex = noindex
        self._allowed = allowed
        self._known, self._known_too = known
        self._change = follow
        self._here: set[bytes] = set()
        self._before = 0
        self._size = 0  # bytes of the items
        self._pipelines = pipelines
        self._response = response
        self._ends = ends
        self._limits = limits
        if limits is not None:
            self._length, self._slashes = limits.length, limits.slashes
        self.waiting: list[tuple[Any, Upsert | None]] = []  # items for the async pipelines

    def take(self, thing: Any) -> None:
        """Take an item or a Request. Raises SpiderError or BadRequest with the reason, and what the
        pipelines raise."""
        if isinstance(thing, Request):
            request = thing if self._change is None else self._changed(thing, self._change)
            if request is not None:
                self._follow(request)
        elif thing is not None:
            upsert = None
            if type(thing) is Upsert:
                upsert, thing = thing, thing.item
            if self._noindex:
                if not is_item(thing):
                    raise no_item(thing)
                self._outcome.drop_item(DROPPED_NOINDEX)
            elif self._pipelines:
                self._process(thing, self._pipelines, upsert)
            else:
                self._store(thing, upsert)

    def forget(self, before: int) -> None:
        """Forgets which requests were taken, because they are recorded elsewhere. ``before``: how
        many there have been."""
        self._here.clear()
        self._before = before

    async def finish(self) -> None:
        """Passes the waiting items through the async pipelines. Raises as ``take`` does."""
        assert self._pipelines is not None
        waiting, self.waiting = self.waiting, []
        for item, upsert in waiting:
            try:
                self._store(await self._pipelines.finish(item, self._response), upsert)
            except DropItem as drop:
                self._drop(drop, self._pipelines)

    def _process(self, item: Any, pipelines: Pipelines, upsert: Upsert | None) -> None:
        if not is_item(item):
            raise no_item(item)
        try:
            item = pipelines.process(item, self._response)
        except DropItem as drop:
            self._drop(drop, pipelines)
            return
        if pipelines.waits:
            self.waiting.append((item, upsert))
        else:
            self._store(item, upsert)

    def _drop(self, drop: DropItem, pipelines: Pipelines) -> None:
        self._outcome.drop_item(pipelines.counter_of(drop.reason))

    def _store(self, thing: Any, upsert: Upsert | None) -> None:
        if upsert is not None or hasattr(thing, "_meta"):
            self._add_model(thing, upsert)
        item = encode_item(thing)
        self._size += len(item)
        if self._size > MAX_ITEMS:
            raise SpiderError(
                f"the items of one page have more than {MAX_ITEMS} bytes as JSON; yield less, "
                "or spread it over several requests"
            )
        self._outcome.items.append(item)

    def _add_model(self, thing: Any, upsert: Upsert | None) -> None:
        if not is_model(type(thing)):
            if upsert is None:
                return
            raise SpiderError(
                f"Upsert of {type(thing).__name__} {str(thing)[:80]!r}; it is for instances of "
                "Django models"
            )
        outcome = self._outcome
        if outcome.models is None:
            outcome.models = {}
        outcome.models[len(outcome.items)] = model_item(thing, upsert)

    def _changed(
        self, request: Request, change: Callable[[Request, Response | None], Any]
    ) -> Request | None:
        """The request that the spider's follow returns for it, or None."""
        request.depth = self._depth
        changed = change(request, self._response)
        if changed is None or isinstance(changed, Request):
            return changed
        raise SpiderError(
            f"follow returned {type(changed).__name__} {str(changed)[:80]!r}; return the request, "
            "another one, or None to drop it"
        )

    def _follow(self, request: Request) -> None:
        outcome = self._outcome
        if self._ends:
            raise SpiderError(
                f"closed yielded a Request for {request.url}; the task has ended: yield items, or "
                "submit a new task"
            )
        if not request.dont_filter and self._allowed is not None and not self._allowed(request.url):
            return
        if self._refused:
            outcome.refuse_link(self._refused)
            return
        fingerprint = request.fingerprint()
        if request.dont_filter:
            fingerprint += b"\0%s%d" % (outcome.rid, self._before + len(outcome.follow_ups))
        if (
            fingerprint in self._known
            or fingerprint in self._known_too
            or fingerprint in self._here
        ):
            outcome.duplicates += 1
            return
        self._here.add(fingerprint)
        # Compared here, because a call for each link would cost more than all comparisons.
        if self._limits is not None and (
            len(url := request.url) > self._length or url.count("/") > self._slashes
        ):
            reason = self._limits.refuses(url, self._before + len(outcome.follow_ups))
            if reason:
                outcome.refuse_link(reason)
                return
        if not request.delay <= MAX_DELAY:
            raise BadRequest(
                f"request {request.url}: delay is {request.delay!r}; it must be a number of "
                f"seconds up to {MAX_DELAY}"
            )
        request.depth = self._depth
        outcome.follow_ups.append(
            Admission(
                make_rid(outcome.task, fingerprint),
                request.rank(self._priority),
                self._place(request),
                max(0, round(request.delay * 1000)),
                request.encode(),
            )
        )
        outcome.fingerprints.append(fingerprint)

    def _place(self, request: Request) -> str:
        if self._route is None:
            return request.host
        return place_of(request.host, self._route(request))
