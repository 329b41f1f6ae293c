"""Errors of all tasks: grouped by cause, and retried over many tasks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Status
from pydantic import AwareDatetime, Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations, invalid
from crawlservice.api.parts.paging import (
    MAX_ID,
    TEXT,
    After,
    Id,
    Limit,
    list_of,
    newest_first,
    page_of,
)
from crawlservice.api.parts.schemas import Named, Output, StrictInput
from crawlservice.models import SPIDER, BulkRetry
from crawlservice.models.error import REASON
from crawlservice.tasks import bulk_retry
from crawlservice.tasks.bulk_retry import RetryExtent, WantedErrors
from crawlservice.tasks.results import error_groups
from crawlservice.tasks.results.error_groups import GroupNow

FurtherGroups = Annotated[
    bool, Field(description="there are further groups, which were not seen as lately")
]
router = Operations(tags=["errors"])
READ = Bearer("read", "view_page")
RETRY = Bearer("operate", "steer_task")
MAX_GROUPS = 200  # groups of one answer
NUMBER = re.compile(r"\s*[-+]?[\d._]+(e[-+]?\d+)?\s*", re.IGNORECASE)
SpiderIs = Annotated[str | None, Query(min_length=1, max_length=SPIDER, pattern=TEXT)]
ReasonIs = Annotated[str | None, Query(min_length=1, max_length=REASON, pattern=TEXT)]
Since = Annotated[AwareDatetime | None, Query(description="errors that were recorded since then")]


class ExampleOut(Output):
    """The latest error of a group."""

    task: int = Field(validation_alias="task_id")
    rid: UUID
    url: str
    detail: str


class ErrorGroupOut(Output):
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


class BulkExtentOut(Output):
    """The requests that a bulk retry would run again."""

    errors: int
    tasks: int
    active: int = Field(description="tasks that still run; their errors are left out")
    active_errors: int

    @staticmethod
    def resolve_tasks(extent: RetryExtent) -> int:
        return len(extent.tasks)


class SkippedOut(Output):
    task: int
    why: str


class BulkRetryOut(Output):
    """A retry of errors over many tasks. The leading node goes through the tasks, one by one."""

    id: int
    spider: str
    reason: str
    group: int | None
    since: datetime | None
    state: Literal["running", "done", "stopped"]
    tasks: int = Field(validation_alias="all_tasks")
    errors: int = Field(validation_alias="all_errors", description="counted when it was started")
    tasks_done: int = Field(validation_alias="position")
    errors_retried: int = Field(validation_alias="retried_errors")
    tasks_skipped: int = Field(validation_alias="skipped_tasks")
    skipped: list[SkippedOut] = Field(description="the first 50 of them")
    problem: str = Field(description="why it does not continue; empty: it does")
    user: Named
    created_at: datetime
    finished_at: datetime | None

    @staticmethod
    def resolve_skipped(row: BulkRetry) -> list[dict[str, Any]]:
        return [{"task": task, "why": why} for task, why in row.skipped]


@router.get("/errors", auth=READ, response=list_of("groups", ErrorGroupOut, more=FurtherGroups))
def list_errors(
    request: HttpRequest,
    spider: SpiderIs = None,
    reason: ReasonIs = None,
    since: Since = None,
    limit: Annotated[int, Query(ge=1, le=MAX_GROUPS, description="maximum number of groups")] = 50,
) -> dict[str, Any]:
    """Groups of errors of all tasks with the same cause, the latest first. Retried and deleted
    errors no longer count."""
    found = error_groups.latest(
        spider=spider or "", reason=reason or "", since=_given(request, since), count=limit
    )
    return {"groups": [_group(group) for group in found.groups], "more": found.more}


@router.get("/errors/{group_id}", auth=READ, response=ErrorGroupDetail)
def show_errors(request: HttpRequest, group_id: Id) -> dict[str, Any]:
    """One group of errors."""
    group = _group(error_groups.one(group_id))
    return group | {"versions": dict(error_groups.versions(group_id))}


@router.get("/retries", auth=READ, response=page_of("retries", BulkRetryOut))
def list_retries(request: HttpRequest, after: After = None, limit: Limit = 100) -> dict[str, Any]:
    """Retries of errors over many tasks, the latest first."""
    rows = BulkRetry.objects.select_related("user").defer("tasks")
    return newest_first("retries", rows, after, limit)


@router.get("/retries/count", auth=READ, response=BulkExtentOut)
def count_retries(
    request: HttpRequest,
    spider: Annotated[str, Query(min_length=1, max_length=SPIDER, pattern=TEXT)],
    reason: ReasonIs = None,
    group: Annotated[int | None, Query(ge=0, le=MAX_ID)] = None,
    since: Since = None,
) -> RetryExtent:
    """The number of errors that a retry would run again."""
    return bulk_retry.extent(WantedErrors(spider, reason or "", group, _given(request, since)))


@router.post("/retries", auth=RETRY, response={201: BulkRetryOut})
def start_retry(request: ApiRequest, body: BulkRetryIn) -> Status[BulkRetry]:
    """Runs errors of a spider again, over its tasks that have ended."""
    wanted = WantedErrors(body.spider, body.reason, body.group, _checked(body.since))
    return Status(201, bulk_retry.get(bulk_retry.start(wanted, request.auth.who).pk))


@router.get("/retries/{retry_id}", auth=READ, response=BulkRetryOut)
def show_retry(request: HttpRequest, retry_id: Id) -> BulkRetry:
    """The progress of a retry."""
    return bulk_retry.get(retry_id)


@router.post("/retries/{retry_id}/stop", auth=RETRY, response=BulkRetryOut)
def stop_retry(request: ApiRequest, retry_id: Id) -> BulkRetry:
    """Leaves the tasks that it has not come to as they are."""
    return bulk_retry.stop(retry_id, request.auth.who)


def _given(request: HttpRequest, since: datetime | None) -> datetime | None:
    """The time of a query."""
    return _checked(since, request.GET.get("since", ""))


def _checked(since: datetime | None, text: str = "") -> datetime | None:
    """Times that the database can compare with its own. ``text``: as it was given; a number would
    be read as seconds since 1970."""
    if since is None:
        return None
    if NUMBER.fullmatch(text):
        raise invalid("since", "since: give a time such as 2026-01-31T18:00:00Z")
    if not 1970 < since.year < 2200:
        raise invalid("since", "since: give a time between 1971 and 2199")
    return since.astimezone(UTC)


def _group(group: GroupNow) -> dict[str, Any]:
    same = ("id", "spider", "reason", "exception", "place", "first_version")
    return {
        **{name: getattr(group.row, name) for name in same},
        "errors": group.errors,
        "more": group.more,
        "first_seen": group.row.created_at,
        "last_seen": group.last_at,
        "last_version": group.example.version,
        "example": group.example,
    }
