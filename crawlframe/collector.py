"""Collector: takes what the callback of a request yields into its outcome."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from crawlframe.budgets import (
    ALIAS,
    DEPTH_LIMIT,
    LAYERS,
    NOFOLLOW,
    TEMPLATE,
    LinkCheck,
)
from crawlframe.downloaders import BROWSER
from crawlframe.errors import (
    BadRequest,
    CloseTask,
    DropItem,
    FetchError,
    FileGone,
    PipelineFailed,
    SpiderError,
    UnfitItem,
)
from crawlframe.items import encode_item, is_item, no_item
from crawlframe.model_items import is_model, model_item
from crawlframe.outcome import Outcome
from crawlframe.proxies import listed
from crawlframe.proxies.place import place_of
from crawlframe.request import Admission, Request, make_rid
from crawlframe.stats import DROPPED
from crawlframe.upsert import Upsert

if TYPE_CHECKING:
    from crawlframe.aliases.fetched_once import KnownByRules
    from crawlframe.noise.followed_once import PageTemplate
    from crawlframe.pipelines import Pipelines
    from crawlframe.response import Response
    from crawlframe.watching import Watching

MAX_ITEMS = 64 << 20  # bytes of JSON of all items of one page
MAX_DELAY = 366 * 24 * 3600  # seconds by which a request may be delayed
DROPPED_NOINDEX = DROPPED + "noindex"  # counts items of pages that say noindex


class Collector:
    """Collects what a callback yields into an outcome."""

    def __init__(
        self,
        outcome: Outcome,
        *,
        priority: int,
        depth: int,
        depth_limit: int,
        layers: int = 0,
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
        watching: Watching | None = None,
        template: PageTemplate | None = None,
        aliases: KnownByRules | None = None,
        keeps: bool = False,
        browser: bool = False,
    ) -> None:
        """``depth`` is the depth of the requests yielded here, none of which is taken if it is more
        than ``depth_limit`` or ``layers``, where these are not 0; ``allowed`` returns whether a URL
        may be followed; ``known`` are fingerprints of this task that the ledger has recorded.
        ``follow`` is the spider's own; it and the pipelines are called with ``response``. If
        ``ends`` is true, the task takes no more requests. ``limits`` are asked about new
        links. ``nofollow``: no request is taken; ``noindex``: no item is; both are counted.
        ``route`` returns through which proxies a request goes. ``watching``: which pages are
        visited by themselves; requests for them are found, and not followed. ``template``: the
        links of the page that are followed once. ``aliases``: which URLs are the same page.
        ``keeps``: what cannot be taken is left out, and becomes the ``failure`` of the outcome.
        ``browser``: it renders requests that name no downloader."""
        self._outcome = outcome
        self._watching = watching
        outcome.results.visit = None if watching is None else watching.visit(outcome.callback)
        self._route = route
        self._priority = priority
        self._depth = depth
        too_deep = bool(depth_limit) and depth > depth_limit
        self._refused = DEPTH_LIMIT if too_deep else NOFOLLOW if nofollow else ""
        if layers and depth > layers and not too_deep:
            self._refused = LAYERS
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
        self._template = template
        self._aliases, self._browser = aliases, browser
        self._limits = limits
        if limits is not None:
            self._length, self._slashes = limits.length, limits.slashes
        self._keeps = keeps
        if keeps:
            self.take = self._take_or_leave  # type: ignore[method-assign]
        self.waiting: list[tuple[Any, Upsert | None]] = []  # items for the async pipelines

    def take(self, thing: Any) -> None:
        """Take an item or a Request. Raises SpiderError or BadRequest with the reason, and what the
        pipelines raise."""
        if isinstance(thing, Request):
            request = thing if self._change is None else self._changed(thing, self._change)
            if request is not None:
                self._follow(request)
        elif isinstance(thing, listed.Proxy):
            if self._noindex:
                self._outcome.count(DROPPED_NOINDEX)
            else:  # pipelines are for items that are stored as they are
                self._outcome.results.proxies = listed.with_proxy(
                    self._outcome.results.proxies, thing
                )
        elif isinstance(thing, BadRequest):  # in place of one that cannot be made
            raise thing
        elif thing is not None:
            upsert = None
            if type(thing) is Upsert:
                upsert, thing = thing, thing.item
            if self._noindex:
                if not is_item(thing):
                    raise no_item(thing)
                self._outcome.count(DROPPED_NOINDEX)
            elif self._pipelines:
                self._process(thing, self._pipelines, upsert)
            else:
                self._store(thing, upsert)

    def _take_or_leave(self, thing: Any) -> None:
        try:
            Collector.take(self, thing)
        except Exception as error:
            self._leave_out(error)

    def _leave_out(self, error: Exception) -> None:
        if not self._keeps or isinstance(error, CloseTask | FetchError | FileGone):
            raise error
        self._outcome.results.failure = self._outcome.results.failure or (error, "callback")

    def forget(self, before: int) -> None:
        """Forgets which requests were taken, because they are recorded elsewhere. ``before``: how
        many there have been."""
        self._here.clear()
        self._before = before

    def done(self) -> None:
        """All that the callback yields was taken."""
        if self._template is not None:
            self._template.done()

    async def finish(self) -> None:
        """Passes the waiting items through the async pipelines. Raises as ``take`` does."""
        assert self._pipelines is not None
        waiting, self.waiting = self.waiting, []
        for item, upsert in waiting:
            try:
                self._store(await self._pipelines.finish(item, self._response), upsert)
            except DropItem as drop:
                self._drop(drop, self._pipelines)
            except Exception as error:
                self._leave_out(error)

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
        self._outcome.results.unfit |= isinstance(drop, UnfitItem)
        if isinstance(drop, PipelineFailed) and self._outcome.results.failure is None:
            self._outcome.results.failure = drop.__cause__ or drop, "pipeline"
        if self._outcome.fetch.attempt is not None:
            self._outcome.fetch.attempt.dropped += 1
        self._outcome.count(pipelines.counter_of(drop.reason))

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
        self._outcome.results.items.append(item)

    def _add_model(self, thing: Any, upsert: Upsert | None) -> None:
        if not is_model(type(thing)):
            if upsert is None:
                return
            raise SpiderError(
                f"Upsert of {type(thing).__name__} {str(thing)[:80]!r}; it is for instances of "
                "Django models"
            )
        outcome = self._outcome
        if outcome.results.models is None:
            outcome.results.models = {}
        outcome.results.models[len(outcome.results.items)] = model_item(thing, upsert)

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
        if outcome.results.requests is not None:
            outcome.results.requests.append(request.encode())
            if request.delay:  # a record does not have it
                outcome.results.signature = b""
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
        if (
            self._template is not None
            and not (request.dont_filter or request.body)
            and self._template.refuses(request.url)
        ):
            outcome.refuse_link(TEMPLATE)
            return
        if self._browser and request.fragment and request.downloader is None:
            request.downloader = BROWSER  # so that the fragment tells it apart
        alias = None if self._aliases is None else self._aliases.find(request)
        fingerprint = request.fingerprint(None if alias is None else alias.key)
        if request.dont_filter:
            fingerprint += b"\0%s%d" % (outcome.rid, self._before + len(outcome.results.follow_ups))
        if (
            fingerprint in self._known
            or fingerprint in self._known_too
            or fingerprint in self._here
        ):
            if self._aliases is None or alias is None:
                outcome.results.duplicates += 1
            else:
                outcome.refuse_link(ALIAS)
                self._aliases.tell(alias, request.url)
            if self._template is not None:
                self._template.take(request.url)
            return
        if alias is None:
            self._here.add(fingerprint)
        # Compared here, because a call for each link would cost more than all comparisons.
        if self._limits is not None and (
            len(url := request.url) > self._length or url.count("/") > self._slashes
        ):
            reason = self._limits.refuses(url, self._before + len(outcome.results.follow_ups))
            if reason:
                outcome.refuse_link(reason)
                return
        if alias is not None:  # of a URL that is refused, another one of its page may be none
            self._here.add(fingerprint)
        if not request.delay <= MAX_DELAY:
            raise BadRequest(
                f"request {request.url}: delay is {request.delay!r}; it must be a number of "
                f"seconds up to {MAX_DELAY}"
            )
        request.depth = self._depth
        if self._template is not None:
            self._template.take(request.url)
        if self._watching is not None and self._watching.takes(request):
            assert outcome.results.visit is not None
            outcome.results.visit.found.append(
                self._watching.found(
                    request, fingerprint, self._place(request), request.rank(self._priority)
                )
            )
            return
        rid = make_rid(outcome.task, fingerprint)
        if alias is not None:
            outcome.results.aliased = outcome.results.aliased or set()
            outcome.results.aliased.add(rid)
        outcome.results.follow_ups.append(
            Admission(
                rid,
                request.rank(self._priority),
                self._place(request),
                max(0, round(request.delay * 1000)),
                request.encode(),
            )
        )
        outcome.results.fingerprints.append(fingerprint)

    def _place(self, request: Request) -> str:
        if self._route is None:
            return request.host
        return place_of(request.host, self._route(request))
