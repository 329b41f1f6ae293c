"""Watches: list, show, start, pause, resume, end, change, visit now; their pages and items."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Body, Query, Router, Status
from pydantic import BaseModel, Field

from crawlframe.errors import ArgumentError
from crawlservice.accounts.roles import may_steer_watch
from crawlservice.api.parts.auth import ApiRequest, Bearer, Caller
from crawlservice.api.parts.errors import READING, WRITING, ApiError, NotAllowed
from crawlservice.api.parts.paging import MAX_ID, TEXT, After, Id, Limit, newest_first, oldest_first
from crawlservice.api.parts.schemas import Priority, SpiderName, StrictInput
from crawlservice.models import Token, Watch, WatchedItem, WatchedPage
from crawlservice.tasks.submit import RedisNotUpdated
from crawlservice.watches import editing
from crawlservice.watches.editing import LEAST_BUDGET, MOST_BUDGET
from crawlservice.watches.overview import numbers_of, rate_of

Budget = Annotated[float, Field(ge=LEAST_BUDGET, le=MOST_BUDGET)]
Number = Annotated[int, Field(ge=1, le=MAX_ID)]
Url = Annotated[str, Field(min_length=1, max_length=8000, pattern=TEXT)]
STATED = "requests per day; null: as the spider says"
router = Router(tags=["watches"])
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


class WatchOut(BaseModel):
    id: int
    spider: str
    arguments: dict[str, Any]
    priority: int
    settings: dict[str, Any]
    state: Literal["running", "paused", "ended"]
    budget: float | None
    host_budget: float | None
    user: str | None
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


class WatchesOut(BaseModel):
    watches: list[WatchOut]
    next: int | None


class WatchedPageOut(BaseModel):
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
    interval: float | None = Field(description="seconds between two visits, as planned")
    first_seen: datetime
    last_visit: datetime | None
    last_change: datetime | None
    next_at: datetime | None = Field(description="null: it is not visited again")
    gone_at: datetime | None
    task: int | None = Field(description="the round that visits it now")


class WatchedPagesOut(BaseModel):
    pages: list[WatchedPageOut]
    next: int | None


class WatchedItemOut(BaseModel):
    id: int
    data: Any
    page: int | None
    first_seen: datetime
    last_seen: datetime
    gone_at: datetime | None


class WatchedItemsOut(BaseModel):
    items: list[WatchedItemOut]
    next: int | None


class VisitNowOut(BaseModel):
    pages: int


@router.get("/watches", auth=READ, response={200: WatchesOut, **READING})
def list_watches(request: ApiRequest, after: After = None, limit: Limit = 100) -> WatchesOut:
    """All watches, the latest first."""
    rows, following = newest_first(Watch.objects.select_related("user"), after, limit)
    return WatchesOut(watches=_out(rows), next=following)


@router.post("/watches", auth=BEGIN, response={201: WatchOut, **WRITING})
def begin_watch(request: ApiRequest, body: Annotated[WatchIn, Body()]) -> Status[WatchOut]:
    """Starts a watch of the pages of a spider that declares when they are visited again."""
    caller = request.auth
    try:
        watch = editing.begin(
            body.spider,
            body.arguments,
            priority=body.priority,
            settings=body.settings,
            budget=body.budget,
            host_budget=body.host_budget,
            user=caller.user,
        )
    except ArgumentError as error:
        raise ApiError(422, "argument", str(error)) from None
    caller.record("begin watch", watch=watch.pk, spider=watch.spider)
    return Status(201, _show(watch.pk))


@router.get("/watches/{watch_id}", auth=READ, response={200: WatchOut, **READING})
def show_watch(request: ApiRequest, watch_id: Id) -> WatchOut:
    """One watch with its numbers."""
    return _show(watch_id)


@router.patch("/watches/{watch_id}", auth=BEGIN, response={200: WatchOut, **WRITING})
def change_watch(
    request: ApiRequest, watch_id: Id, body: Annotated[WatchPatch, Body()]
) -> WatchOut:
    """Changes its budgets."""
    caller = _steered(request, watch_id)
    given = body.model_dump(exclude_unset=True)
    if given:
        editing.set_budget(watch_id, **given)
        caller.record("change watch", watch=watch_id, **given)
    return _show(watch_id)


@router.post("/watches/{watch_id}/pause", auth=BEGIN, response={(200, 202): WatchOut, **WRITING})
def pause_watch(request: ApiRequest, watch_id: Id) -> Status[WatchOut]:
    """Makes no more rounds; one under way waits. 202: Redis is unreachable; the nodes do it when it
    is back."""
    return _turn(request, watch_id, "pause", editing.pause)


@router.post("/watches/{watch_id}/resume", auth=BEGIN, response={(200, 202): WatchOut, **WRITING})
def resume_watch(request: ApiRequest, watch_id: Id) -> Status[WatchOut]:
    """Visits due pages again."""
    return _turn(request, watch_id, "resume", editing.resume)


@router.post("/watches/{watch_id}/end", auth=BEGIN, response={(200, 202): WatchOut, **WRITING})
def end_watch(request: ApiRequest, watch_id: Id) -> Status[WatchOut]:
    """Ends a watch for ever; its pages and items stay."""
    return _turn(request, watch_id, "end", editing.end)


@router.post("/watches/{watch_id}/visit-now", auth=BEGIN, response={200: VisitNowOut, **WRITING})
def visit_now(
    request: ApiRequest, watch_id: Id, body: Annotated[VisitNowIn | None, Body()] = None
) -> VisitNowOut:
    """Visits these pages with the next round, whatever the budget says; without any, runs
    `start`."""
    caller = _steered(request, watch_id)
    given = body or VisitNowIn()
    try:
        pages = editing.visit_now(watch_id, given.pages, given.urls)
    except ArgumentError as error:
        raise ApiError(422, "argument", str(error)) from None
    caller.record("visit now", watch=watch_id, pages=pages)
    return VisitNowOut(pages=pages)


@router.get("/watches/{watch_id}/pages", auth=READ, response={200: WatchedPagesOut, **READING})
def list_watched_pages(
    request: ApiRequest,
    watch_id: Id,
    state: Annotated[Literal["new", "live", "gone", "failed"] | None, Query()] = None,
    q: Search = None,
    after: After = None,
    limit: Limit = 100,
) -> WatchedPagesOut:
    """The pages of a watch, with the last and the next visit of each."""
    watch = editing.get(watch_id)
    rows = WatchedPage.objects.filter(watch=watch)
    rows = rows if state is None else rows.filter(state=state)
    rows = rows if q is None else rows.filter(url__icontains=q)
    found, following = oldest_first(rows, after, limit)
    return WatchedPagesOut(pages=[_page(watch, page) for page in found], next=following)


@router.get(
    "/watches/{watch_id}/items", auth=READ_ITEMS, response={200: WatchedItemsOut, **READING}
)
def list_watched_items(
    request: ApiRequest,
    watch_id: Id,
    gone: Annotated[
        bool | None, Query(description="only pages that are gone, or that are not")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> WatchedItemsOut:
    """The items of a watch as they were last seen."""
    rows = WatchedItem.objects.filter(watch=editing.get(watch_id))
    rows = rows if gone is None else rows.filter(gone_at__isnull=not gone)
    found, following = oldest_first(rows, after, limit)
    items = [
        WatchedItemOut(
            id=row.pk,
            data=row.data,
            page=row.page_id,
            first_seen=row.first_seen,
            last_seen=row.last_seen,
            gone_at=row.gone_at,
        )
        for row in found
    ]
    return WatchedItemsOut(items=items, next=following)


def _steered(request: ApiRequest, number: int) -> Caller:
    """The caller, if they may control the watch. Raises UnknownWatch and NotAllowed."""
    caller = request.auth
    watch = editing.get(number)
    own = watch.user_id == caller.user.pk
    may = own or caller.allows(Token.Scope.OPERATE)
    if not may or not may_steer_watch(caller.user, watch):
        raise NotAllowed(
            f"you may not control watch {number}; this needs an operator, and a token of scope "
            "operate"
        )
    return caller


def _turn(
    request: ApiRequest, number: int, verb: str, do: Callable[[int], Any]
) -> Status[WatchOut]:
    caller, status = _steered(request, number), 200
    try:
        do(number)
    except RedisNotUpdated:
        status = 202
    caller.record(f"{verb} watch", watch=number)
    return Status(status, _show(number))


def _show(number: int) -> WatchOut:
    return _out([editing.get(number)])[0]


def _out(watches: list[Watch]) -> list[WatchOut]:
    numbers = numbers_of([watch.pk for watch in watches])
    return [
        WatchOut(
            id=watch.pk,
            spider=watch.spider,
            arguments=watch.shown_arguments,
            priority=watch.priority,
            settings=watch.overrides,
            state=watch.state,  # type: ignore[arg-type]
            budget=watch.budget,
            host_budget=watch.host_budget,
            user=watch.user.get_username() if watch.user else None,
            created_at=watch.created_at,
            start_at=watch.start_at,
            settled_at=watch.settled_at,
            problem=watch.problem,
            **numbers[watch.pk]._asdict(),
        )
        for watch in watches
    ]


def _page(watch: Watch, page: WatchedPage) -> WatchedPageOut:
    return WatchedPageOut(
        id=page.pk,
        url=page.url,
        callback=page.callback,
        state=page.state,  # type: ignore[arg-type]
        reason=page.reason,
        status=page.status,
        importance=page.importance,
        visits=page.visits,
        changes=page.changes,
        rate=rate_of(watch, page),
        interval=page.every,
        first_seen=page.first_seen,
        last_visit=page.last_visit,
        last_change=page.last_change,
        next_at=page.next_at,
        gone_at=page.gone_at,
        task=page.round,
    )
