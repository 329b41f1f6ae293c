"""Collector: takes the results of a request's callback into its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crawlframe.base.stats import DROPPED
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
from crawlframe.items.encode import encode_item, is_item, no_item
from crawlframe.items.models import is_model, model_item
from crawlframe.items.upsert import Upsert
from crawlframe.proxies.proxy import Proxy, with_proxy
from crawlframe.request.request import Admission, Request, make_rid
from crawlframe.run.link_filters import (
    DUPLICATE,
    MAX_DELAY,
    UNCOUNTED,
    LinkFilter,
    LinkPage,
    NewRequest,
    bad_delay,
)

if TYPE_CHECKING:
    from crawlframe.items.pipelines import Pipelines

MAX_ITEMS = 64 << 20  # bytes of JSON of all items of one page
DROPPED_NOINDEX = DROPPED + "noindex"  # counts items of pages that say noindex


class Collector:
    """Collects the items and links of a page into its outcome."""

    def __init__(
        self,
        page: LinkPage,
        filters: Iterable[LinkFilter] = (),
        *,
        pipelines: Pipelines | None = None,
        noindex: bool = False,
        keeps: bool = False,
    ) -> None:
        """``page``: the source of the results. Its links pass the ``filters``, in their order,
        KnownFilter among them; its items the pipelines. ``noindex``: no item is taken, but all are
        counted. ``keeps``: a result that cannot be taken is left out, and its error becomes the
        ``failure`` of the outcome."""
        self._page = page
        self._outcome, self._results = page.outcome, page.outcome.results
        self._filters = [keep for one in filters if (keep := one.of_page(page)) is not None]
        self._notes = page.notes
        self._link = NewRequest()  # one at a time
        self._noindex = noindex
        self._size = 0  # bytes of the items
        self._pipelines = pipelines
        self._keeps = keeps
        if keeps:
            self.take = self._take_or_leave  # type: ignore[method-assign]
        self.waiting: list[tuple[Any, Upsert | None]] = []  # items for the async pipelines

    def take(self, thing: Any) -> None:
        """Take an item or a Request. Raises SpiderError or BadRequest with the reason, and errors
        of the pipelines."""
        if isinstance(thing, Request):
            self._follow(thing)
        elif isinstance(thing, Proxy):
            if self._noindex:
                self._outcome.count(DROPPED_NOINDEX)
            else:  # pipelines are for items that are stored as they are
                self._results.proxies = with_proxy(self._results.proxies, thing)
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
        self._results.failure = self._results.failure or (error, "callback")

    def forget(self, before: int) -> None:
        """Forgets which requests were taken, because they are recorded elsewhere. ``before``: how
        many there have been."""
        self._page.here.clear()
        self._page.before = before

    def done(self) -> None:
        """Called when all results of the callback were taken."""
        for done in self._page.done:
            done()

    async def finish(self) -> None:
        """Passes the waiting items through the async pipelines. Raises as ``take`` does."""
        assert self._pipelines is not None
        waiting, self.waiting = self.waiting, []
        for item, upsert in waiting:
            try:
                self._store(await self._pipelines.finish(item, self._page.response), upsert)
            except DropItem as drop:
                self._drop(drop, self._pipelines)
            except Exception as error:
                self._leave_out(error)

    def _process(self, item: Any, pipelines: Pipelines, upsert: Upsert | None) -> None:
        if not is_item(item):
            raise no_item(item)
        try:
            item = pipelines.process(item, self._page.response)
        except DropItem as drop:
            self._drop(drop, pipelines)
            return
        if pipelines.waits:
            self.waiting.append((item, upsert))
        else:
            self._store(item, upsert)

    def _drop(self, drop: DropItem, pipelines: Pipelines) -> None:
        self._results.unfit |= isinstance(drop, UnfitItem)
        if isinstance(drop, PipelineFailed) and self._results.failure is None:
            self._results.failure = drop.__cause__ or drop, "pipeline"
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
        self._results.items.append(item)

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

    def _follow(self, request: Request) -> None:
        outcome, link, reason = self._outcome, self._link, None
        link.request, link.key = request, None
        for keep in self._filters:
            reason = keep(link)
            if reason is not None:
                break
        else:
            request = link.request
            if not request.delay <= MAX_DELAY:
                raise bad_delay(request)
            request.depth = self._page.depth
            outcome.results.follow_ups.append(
                Admission(
                    make_rid(outcome.task, link.fingerprint),
                    request.rank(self._page.priority),
                    self._page.place(request),
                    max(0, round(request.delay * 1000)) if request.delay else 0,
                    request.encode(),
                )
            )
            outcome.results.fingerprints.append(link.fingerprint)
        if self._notes:
            for note in self._notes:
                note(link, reason)
        if reason is DUPLICATE:
            outcome.results.duplicates += 1
        elif reason is not None and reason not in UNCOUNTED:
            outcome.refuse_link(reason)
