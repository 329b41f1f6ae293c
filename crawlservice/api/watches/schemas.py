"""What the API accepts and returns about watches."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from crawlservice.api.parts.paging import MAX_ID, TEXT
from crawlservice.api.parts.schemas import Priority, SpiderName, StrictInput
from crawlservice.watches.editing import LEAST_BUDGET, MOST_BUDGET

Budget = Annotated[float, Field(ge=LEAST_BUDGET, le=MOST_BUDGET)]
Number = Annotated[int, Field(ge=1, le=MAX_ID)]
Url = Annotated[str, Field(min_length=1, max_length=8000, pattern=TEXT)]
STATED = "requests per day; null: as the spider says"


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
    problem: str = Field(description="why it cannot go on; empty if it can")
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
    task: int | None = Field(description="the round in which it is visited now")


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
