"""What the API accepts and returns about errors of all tasks, and their retries."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field

from crawlservice.api.parts.paging import MAX_ID, TEXT
from crawlservice.api.parts.schemas import PageOut, StrictInput
from crawlservice.models import SPIDER
from crawlservice.models.error import REASON


class ExampleOut(BaseModel):
    """The latest error of a group."""

    task: int
    rid: UUID
    url: str
    detail: str


class ErrorGroupOut(BaseModel):
    """Errors of one spider with one cause: the reason, and of an exception in authors' code its
    type and where it was raised."""

    id: int
    spider: str
    reason: str
    exception: str = Field(description="type of the exception; empty: none")
    place: str = Field(description="file and function; empty: none")
    errors: int = Field(description="that are in the ledger now, in the time that was asked for")
    more: bool = Field(description="`errors` is a lower bound")
    first_seen: datetime
    first_version: str = Field(description="code version that ran when it was first seen")
    last_seen: datetime
    last_version: str
    example: ExampleOut


class ErrorGroupsOut(BaseModel):
    groups: list[ErrorGroupOut]
    more: bool = Field(description="there are further groups, which were not seen as lately")


class ErrorGroupDetail(ErrorGroupOut):
    versions: dict[str, int] = Field(
        description="its latest 1,000 errors by code version, the latest version first"
    )


class BulkRetryIn(StrictInput):
    """Which errors run again. `since`: by when they were recorded."""

    spider: Annotated[str, Field(min_length=1, max_length=SPIDER, pattern=TEXT)]
    reason: Annotated[str, Field(max_length=REASON, pattern=TEXT)] = ""
    group: Annotated[int, Field(ge=0, le=MAX_ID)] | None = None
    since: Annotated[AwareDatetime, Field(strict=False)] | None = None


class BulkExtentOut(BaseModel):
    """What a bulk retry would run again."""

    errors: int
    tasks: int
    active: int = Field(description="tasks that still run; their errors are left out")
    active_errors: int


class SkippedOut(BaseModel):
    task: int
    why: str


class BulkRetryOut(BaseModel):
    """A retry of errors over many tasks. The leading node goes through the tasks, one by one."""

    id: int
    spider: str
    reason: str
    group: int | None
    since: datetime | None
    state: Literal["running", "done", "stopped"]
    tasks: int
    errors: int = Field(description="counted when it was started")
    tasks_done: int
    errors_retried: int
    tasks_skipped: int
    skipped: list[SkippedOut] = Field(description="the first 50 of them")
    problem: str = Field(description="why it does not go on; empty: it does")
    user: str | None
    created_at: datetime
    finished_at: datetime | None


class BulkRetriesOut(BaseModel):
    retries: list[BulkRetryOut]
    next: int | None


class PageDetail(PageOut):
    """A request that ended, with its headers if it ended in error."""

    task: int
    spider: str
    error_group: int | None
    exchange: dict[str, Any] | None = Field(
        description="of an error: `method`, `url` and `sent` of the last transfer; `status` and "
        "`received` if it was answered. Headers are pairs of name and value, without secrets"
    )
