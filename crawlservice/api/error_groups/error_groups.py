"""Errors of all tasks: grouped by cause, and retried over many tasks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Body, Query, Router, Status
from pydantic import AwareDatetime, BaseModel, Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING, ApiError
from crawlservice.api.parts.paging import MAX_ID, TEXT, After, Id, Limit, newest_first
from crawlservice.api.parts.schemas import PageOut, StrictInput
from crawlservice.models import SPIDER, BulkRetry
from crawlservice.models.error import REASON
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.bulk_retry import WantedErrors
from crawlservice.tasks.results import error_groups
from crawlservice.tasks.results.error_groups import GroupNow

router = Router(tags=["errors"])
READ = Bearer("read", "view_page")
RETRY = Bearer("operate", "steer_task")
MAX_GROUPS = 200  # groups of one answer
NUMBER = re.compile(r"\s*[-+]?[\d._]+(e[-+]?\d+)?\s*", re.IGNORECASE)
SpiderIs = Annotated[str | None, Query(min_length=1, max_length=SPIDER, pattern=TEXT)]
ReasonIs = Annotated[str | None, Query(min_length=1, max_length=REASON, pattern=TEXT)]
Since = Annotated[AwareDatetime | None, Query(description="errors that were recorded since then")]


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
    """The errors that run again. `since`: by time of their record."""

    spider: Annotated[str, Field(min_length=1, max_length=SPIDER, pattern=TEXT)]
    reason: Annotated[str, Field(max_length=REASON, pattern=TEXT)] = ""
    group: Annotated[int, Field(ge=0, le=MAX_ID)] | None = None
    since: Annotated[AwareDatetime, Field(strict=False)] | None = None


class BulkExtentOut(BaseModel):
    """The requests that a bulk retry would run again."""

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
    problem: str = Field(description="why it does not continue; empty: it does")
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


@router.get("/errors", auth=READ, response={200: ErrorGroupsOut, **READING})
def list_errors(
    request: HttpRequest,
    spider: SpiderIs = None,
    reason: ReasonIs = None,
    since: Since = None,
    limit: Annotated[int, Query(ge=1, le=MAX_GROUPS, description="maximum number of groups")] = 50,
) -> ErrorGroupsOut:
    """Groups of errors of all tasks with the same cause, the latest first. Retried and deleted
    errors no longer count."""
    found = error_groups.latest(
        spider=spider or "", reason=reason or "", since=_given(request, since), count=limit
    )
    groups = [ErrorGroupOut(**_group(group)) for group in found.groups]
    return ErrorGroupsOut(groups=groups, more=found.more)


@router.get("/errors/{group_id}", auth=READ, response={200: ErrorGroupDetail, **READING})
def show_errors(request: HttpRequest, group_id: Id) -> ErrorGroupDetail:
    """One group of errors."""
    group = error_groups.one(group_id)
    return ErrorGroupDetail(**_group(group), versions=dict(error_groups.versions(group_id)))


@router.get("/retries", auth=READ, response={200: BulkRetriesOut, **READING})
def list_retries(request: HttpRequest, after: After = None, limit: Limit = 100) -> BulkRetriesOut:
    """Retries of errors over many tasks, the latest first."""
    rows = BulkRetry.objects.select_related("user").defer("tasks")
    found, following = newest_first(rows, after, limit)
    return BulkRetriesOut(retries=[_retry(row) for row in found], next=following)


@router.get("/retries/count", auth=READ, response={200: BulkExtentOut, **READING})
def count_retries(
    request: HttpRequest,
    spider: Annotated[str, Query(min_length=1, max_length=SPIDER, pattern=TEXT)],
    reason: ReasonIs = None,
    group: Annotated[int | None, Query(ge=0, le=MAX_ID)] = None,
    since: Since = None,
) -> BulkExtentOut:
    """The number of errors that a retry would run again."""
    found = bulk_retry.extent(WantedErrors(spider, reason or "", group, _given(request, since)))
    return BulkExtentOut(
        errors=found.errors,
        tasks=len(found.tasks),
        active=found.active,
        active_errors=found.active_errors,
    )


@router.post("/retries", auth=RETRY, response={201: BulkRetryOut, **WRITING})
def start_retry(request: ApiRequest, body: Annotated[BulkRetryIn, Body()]) -> Status[BulkRetryOut]:
    """Runs errors of a spider again, over its tasks that have ended."""
    caller = request.auth
    wanted = WantedErrors(body.spider, body.reason, body.group, _checked(body.since))
    return Status(201, _retry(bulk_retry.get(bulk_retry.start(wanted, caller.who).pk)))


@router.get("/retries/{retry_id}", auth=READ, response={200: BulkRetryOut, **READING})
def show_retry(request: HttpRequest, retry_id: Id) -> BulkRetryOut:
    """The progress of a retry."""
    return _retry(bulk_retry.get(retry_id))


@router.post("/retries/{retry_id}/stop", auth=RETRY, response={200: BulkRetryOut, **WRITING})
def stop_retry(request: ApiRequest, retry_id: Id) -> BulkRetryOut:
    """Leaves the tasks that it has not come to as they are."""
    caller = request.auth
    return _retry(bulk_retry.stop(retry_id, caller.who))


def _given(request: HttpRequest, since: datetime | None) -> datetime | None:
    """The time of a query."""
    return _checked(since, request.GET.get("since", ""))


def _checked(since: datetime | None, text: str = "") -> datetime | None:
    """Times that the database can compare with its own. ``text``: as it was given; a number would
    be read as seconds since 1970."""
    if since is None:
        return None
    if NUMBER.fullmatch(text):
        raise ApiError(422, "invalid", "since: give a time such as 2026-01-31T18:00:00Z", "since")
    if not 1970 < since.year < 2200:
        raise ApiError(422, "invalid", "since: give a time between 1971 and 2199", "since")
    return since.astimezone(UTC)


def _group(group: GroupNow) -> dict[str, Any]:
    row, page = group.row, group.example
    return {
        "id": row.pk,
        "spider": row.spider,
        "reason": row.reason,
        "exception": row.exception,
        "place": row.place,
        "errors": group.errors,
        "more": group.more,
        "first_seen": row.created_at,
        "first_version": row.first_version,
        "last_seen": group.last_at,
        "last_version": page.version,
        "example": ExampleOut(task=page.task_id, rid=page.rid, url=page.url, detail=page.detail),
    }


def _retry(row: BulkRetry) -> BulkRetryOut:
    return BulkRetryOut(
        id=row.pk,
        spider=row.spider,
        reason=row.reason,
        group=row.group,
        since=row.since,
        state=row.state,  # type: ignore[arg-type]
        tasks=row.all_tasks,
        errors=row.all_errors,
        tasks_done=row.position,
        errors_retried=row.retried_errors,
        tasks_skipped=row.skipped_tasks,
        skipped=[SkippedOut(task=task, why=why) for task, why in row.skipped],
        problem=row.problem,
        user=row.user.get_username() if row.user else None,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
