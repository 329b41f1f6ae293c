"""Watches: list, show, start, pause, resume, end, change, visit now; their pages and items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Query, Status
from pydantic import Field

from crawlservice.accounts.roles import may_steer
from crawlservice.api.parts.auth import ApiRequest, Bearer, Caller
from crawlservice.api.parts.errors import NotAllowed, Operations, status_of
from crawlservice.api.parts.paging import (
    MAX_ID,
    TEXT,
    After,
    Id,
    Limit,
    newest_first,
    oldest_first,
    page_of,
)
from crawlservice.api.parts.schemas import Named, Output, Priority, SpiderName, StrictInput
from crawlservice.models import Token, Watch, WatchedItem, WatchedPage
from crawlservice.watches import editing
from crawlservice.watches.editing import LEAST_BUDGET, MOST_BUDGET
from crawlservice.watches.overview import Numbers, numbers_of, rate_of

Budget = Annotated[float, Field(ge=LEAST_BUDGET, le=MOST_BUDGET)]
Number = Annotated[int, Field(ge=1, le=MAX_ID)]
Url = Annotated[str, Field(min_length=1, max_length=8000, pattern=TEXT)]
STATED = "requests per day; null: as the spider says"
router = Operations(tags=["watches"])
READ = Bearer("read", "view_watch")
READ_ITEMS = Bearer("read", "view_item")
BEGIN = Bearer("submit", "submit_task")
Search = Annotated[
    str | None,
    Query(min_length=1, max_length=1000, pattern=TEXT, description="a part of the URL"),
]


class WatchIn(StrictInput):
    """A new watch. Its arguments are checked, so a node must have published the spider."""

    spider: SpiderName
    arguments: dict[str, Any] = {}
    priority: Priority = 0
    settings: dict[str, Any] = {}
    budget: Budget | None = Field(None, description=STATED)
    host_budget: Budget | None = Field(None, description=f"{STATED}; for each host")


class WatchPatch(StrictInput):
    """The fields that change."""

    budget: Budget | None = Field(None, description=STATED)
    host_budget: Budget | None = Field(None, description=f"{STATED}; for each host")


class VisitNowIn(StrictInput):
    """Pages by `id` or by URL; without any, `start` runs."""

    pages: Annotated[list[Number], Field(max_length=1000)] = []
    urls: Annotated[list[Url], Field(max_length=1000)] = []


class WatchOut(Output):
    id: int
    spider: str
    arguments: dict[str, Any] = Field(validation_alias="shown_arguments")
    priority: int
    settings: dict[str, Any] = Field(validation_alias="overrides")
    state: Literal["running", "paused", "ended"]
    budget: float | None
    host_budget: float | None
    user: Named
    created_at: datetime
    start_at: datetime = Field(description="when `start` runs again, to find new pages")
    settled_at: datetime | None = Field(description="when all pages had been visited once")
    problem: str = Field(description="why it cannot continue; empty if it can")
    pages: int
    new: int = Field(description="not visited yet")
    gone: int
    failed: int
    due: int
    today: int = Field(description="visits of today, UTC")
    visits: int
    changes: int
    fresh: float | None = Field(
        description="estimated share of the pages that is up to date, by importance"
    )


class WatchedPageOut(Output):
    id: int
    url: str
    callback: str
    state: Literal["new", "live", "gone", "failed"]
    reason: str
    status: int | None
    importance: float
    visits: int
    changes: int
    rate: float | None = Field(description="changes per day, as far as they are known")
    interval: float | None = Field(
        validation_alias="every", description="seconds between two visits, as planned"
    )
    first_seen: datetime
    last_visit: datetime | None
    last_change: datetime | None
    next_at: datetime | None = Field(description="null: it is not visited again")
    gone_at: datetime | None
    task: int | None = Field(validation_alias="round", description="the round that visits it now")

    @staticmethod
    def resolve_rate(page: WatchedPage) -> float | None:
        return rate_of(page.watch, page)


class WatchedItemOut(Output):
    id: int
    data: Any
    page: int | None = Field(validation_alias="page_id")
    first_seen: datetime
    last_seen: datetime
    gone_at: datetime | None


class VisitNowOut(Output):
    pages: int


@router.get("/watches", auth=READ, response=page_of("watches", WatchOut))
def list_watches(request: ApiRequest, after: After = None, limit: Limit = 100) -> dict[str, Any]:
    """All watches, the latest first."""
    rows = Watch.objects.select_related("user")
    return newest_first("watches", rows, after, limit, _with_numbers)


@router.post("/watches", auth=BEGIN, response={201: WatchOut})
def begin_watch(request: ApiRequest, body: WatchIn) -> Status[Any]:
    """Starts a watch of the pages of a spider that declares when they are visited again."""
    caller = request.auth
    watch = editing.begin(**body.model_dump(), user=caller.user)
    caller.record("begin watch", watch=watch.pk, spider=watch.spider)
    return Status(201, _show(watch.pk))


@router.get("/watches/{watch_id}", auth=READ, response=WatchOut)
def show_watch(request: ApiRequest, watch_id: Id) -> dict[str, Any]:
    """One watch with its numbers."""
    return _show(watch_id)


@router.patch("/watches/{watch_id}", auth=BEGIN, response=WatchOut)
def change_watch(request: ApiRequest, watch_id: Id, body: WatchPatch) -> dict[str, Any]:
    """Changes its budgets."""
    caller = _steered(request, watch_id)
    given = body.model_dump(exclude_unset=True)
    if given:
        editing.set_budget(watch_id, **given)
        caller.record("change watch", watch=watch_id, **given)
    return _show(watch_id)


@router.post("/watches/{watch_id}/pause", auth=BEGIN, response={(200, 202): WatchOut})
def pause_watch(request: ApiRequest, watch_id: Id) -> Status[Any]:
    """Makes no more rounds; one under way waits. 202: Redis is unreachable; the nodes do it when it
    is back."""
    return _turn(request, watch_id, "pause", editing.pause)


@router.post("/watches/{watch_id}/resume", auth=BEGIN, response={(200, 202): WatchOut})
def resume_watch(request: ApiRequest, watch_id: Id) -> Status[Any]:
    """Visits due pages again."""
    return _turn(request, watch_id, "resume", editing.resume)


@router.post("/watches/{watch_id}/end", auth=BEGIN, response={(200, 202): WatchOut})
def end_watch(request: ApiRequest, watch_id: Id) -> Status[Any]:
    """Ends a watch for ever; its pages and items stay."""
    return _turn(request, watch_id, "end", editing.end)


@router.post("/watches/{watch_id}/visit-now", auth=BEGIN, response=VisitNowOut)
def visit_now(request: ApiRequest, watch_id: Id, body: VisitNowIn | None = None) -> VisitNowOut:
    """Visits these pages with the next round, whatever the budget says; without any, runs
    `start`."""
    caller = _steered(request, watch_id)
    given = body or VisitNowIn()
    pages = editing.visit_now(watch_id, given.pages, given.urls)
    caller.record("visit now", watch=watch_id, pages=pages)
    return VisitNowOut(pages=pages)


@router.get("/watches/{watch_id}/pages", auth=READ, response=page_of("pages", WatchedPageOut))
def list_watched_pages(
    request: ApiRequest,
    watch_id: Id,
    state: Annotated[Literal["new", "live", "gone", "failed"] | None, Query()] = None,
    q: Search = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """The pages of a watch, with the last and the next visit of each."""
    watch = editing.get(watch_id)
    rows = WatchedPage.objects.filter(watch=watch)
    rows = rows if state is None else rows.filter(state=state)
    rows = rows if q is None else rows.filter(url__icontains=q)
    rows = rows.select_related("watch")
    return oldest_first("pages", rows, after, limit)


@router.get("/watches/{watch_id}/items", auth=READ_ITEMS, response=page_of("items", WatchedItemOut))
def list_watched_items(
    request: ApiRequest,
    watch_id: Id,
    gone: Annotated[
        bool | None, Query(description="only pages that are gone, or that are not")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """The items of a watch as they were last seen."""
    rows = WatchedItem.objects.filter(watch=editing.get(watch_id))
    rows = rows if gone is None else rows.filter(gone_at__isnull=not gone)
    return oldest_first("items", rows, after, limit)


def _steered(request: ApiRequest, number: int) -> Caller:
    """The caller, if they may control the watch. Raises NotFound and NotAllowed."""
    caller = request.auth
    watch = editing.get(number)
    own = watch.user_id == caller.user.pk
    may = own or caller.allows(Token.Scope.OPERATE)
    if not may or not may_steer(caller.user, watch):
        raise NotAllowed(
            f"you may not control watch {number}; this needs an operator, and a token of scope "
            "operate"
        )
    return caller


def _turn(request: ApiRequest, number: int, verb: str, do: Callable[[int], Any]) -> Status[Any]:
    caller = _steered(request, number)
    status = status_of(do, number)
    caller.record(f"{verb} watch", watch=number)
    return Status(status, _show(number))


def _show(number: int) -> dict[str, Any]:
    return _with_numbers([editing.get(number)])[0]


def _with_numbers(watches: Sequence[Watch]) -> list[dict[str, Any]]:
    numbers = numbers_of([watch.pk for watch in watches])
    fields = {name: field.validation_alias or name for name, field in WatchOut.model_fields.items()}
    columns = [str(column) for name, column in fields.items() if name not in Numbers._fields]
    return [
        {name: getattr(watch, name) for name in columns} | numbers[watch.pk]._asdict()
        for watch in watches
    ]
