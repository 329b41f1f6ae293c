"""Pages as their sites sent them. Contents may hold data of persons, so they have a right of their
own."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query
from pydantic import Field

from crawlframe.errors import PageDamaged, StoreError
from crawlframe.warc import FORMATS
from crawlservice.accounts import journal
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import ApiError, Operations, sends
from crawlservice.api.parts.paging import (
    TEXT,
    After,
    Id,
    Limit,
    Usage,
    newest_first,
    oldest_first,
    page_of,
)
from crawlservice.api.parts.schemas import Output, PageOut
from crawlservice.api.tasks.tasks import load_task
from crawlservice.models import KeptPage, Page
from crawlservice.pages import page_viewer
from crawlservice.pages.export import NAMES, PagesExport
from crawlservice.pages.page_viewer import ShownPage
from crawlservice.tasks.results.item_filter import of_pages, read_filters

READ_PAGES = Bearer("read", "view_page")
router = Operations(tags=["items and pages"])
READ = Bearer("read", "view_keptpage")
SEE = Bearer("read", "view_pagebody")
Filter = Annotated[str | None, Query(max_length=300, pattern=TEXT)]


class KeptPageOut(Output):
    id: int
    rid: UUID = Field(description="of the request that fetched it")
    task: int = Field(validation_alias="task_id")
    url: str = Field(description="after redirects")
    host: str
    method: str
    status: int
    reason: str = Field(description="why it is kept; empty: its request is done")
    sample: str | None = Field(
        description="the callback whose good pages it stands for, without secrets; null: it is "
        "kept for itself"
    )
    size: int = Field(
        validation_alias="body.size", description="bytes of the body, after decompression"
    )
    fetched_at: datetime


class KeptPageDetail(KeptPageOut):
    headers: dict[str, Any] = Field(description="sent and received, without secrets")
    address: str = Field(description="IP address of the server; empty: unknown")


class PageDetail(PageOut):
    """A request that ended, with its headers if it ended in error."""

    task: int = Field(validation_alias="task_id")
    spider: str = Field(validation_alias="task.spider")
    error_group: int | None
    exchange: dict[str, Any] | None = Field(
        description="of an error: `method`, `url` and `sent` of the last transfer; `status` and "
        "`received` if it was answered. Headers are pairs of name and value, without secrets"
    )


@router.get("/kept-pages", auth=READ, response=page_of("pages", KeptPageOut))
def list_kept_pages(
    request: HttpRequest,
    task: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    spider: Filter = None,
    host: Filter = None,
    reason: Filter = None,
    status: Annotated[int | None, Query(ge=0, le=999)] = None,
    url: Annotated[str | None, Query(max_length=2083, pattern=TEXT, description="exactly")] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Pages that are kept, the newest first."""
    rows = KeptPage.objects.select_related("body").defer("headers", "record", "body__data")
    given = {"task": task, "task__spider": spider, "host": host, "reason": reason,
             "status": status, "url": url}  # fmt: skip
    rows = rows.filter(**{name: value for name, value in given.items() if value is not None})
    return newest_first("pages", rows, after, limit)


@router.get("/kept-pages/{rid}", auth=READ, response=KeptPageDetail)
def show_kept_page(request: HttpRequest, rid: UUID) -> KeptPage:
    """A page that is kept, with its headers."""
    return _row(rid)


@router.get(
    "/kept-pages/{rid}/body",
    auth=SEE,
    openapi_extra=sends("The body", "application/octet-stream"),
)
def download_body(request: ApiRequest, rid: UUID) -> HttpResponse:
    """The body as it was received, after decompression, as an attachment."""
    row = _row(rid)
    try:
        content = ShownPage.of(row)
    except (PageDamaged, StoreError) as error:
        raise ApiError(503, "store_away", str(error)) from None
    journal.record("download_page", task=row.task_id, **request.auth.who, rid=str(rid))
    return page_viewer.attachment(content)


@router.get(
    "/tasks/{task_id}/kept-pages/export",
    auth=SEE,
    openapi_extra=sends("The file", *FORMATS.values()),
)
def export_pages(
    request: ApiRequest,
    task_id: Id,
    format: Annotated[Literal[tuple(NAMES)], Query()] = "wacz",  # type: ignore[valid-type]
) -> StreamingHttpResponse:
    """The pages that are kept of a task, as a WARC or WACZ file, streamed. 503 while a part of them
    is on a node that has not uploaded it yet."""
    task = load_task(task_id)
    suffix = NAMES[format]
    name = f"{task.spider}-{task.pk}"
    try:
        pieces = PagesExport(KeptPage.objects.filter(task=task)).stream(suffix, name)
    except StoreError as error:
        raise ApiError(503, "store_away", str(error)) from None
    request.auth.record("export pages", task, format=format)
    return StreamingHttpResponse(
        pieces,
        content_type=FORMATS[suffix],
        headers={"Content-Disposition": f'attachment; filename="task-{task.pk}{suffix}"'},
    )


def _row(rid: UUID) -> KeptPage:
    rows = KeptPage.objects.select_related("body").defer("body__data")
    if (row := rows.filter(rid=rid).first()) is None:
        raise ApiError(404, "unknown_page", f"no page of request {rid} is kept")
    return row


@router.get("/tasks/{task_id}/pages", auth=READ_PAGES, response=page_of("pages", PageOut))
def list_pages(
    request: HttpRequest,
    task_id: Id,
    state: Annotated[Literal["done", "error"] | None, Query()] = None,
    rid: Annotated[UUID | None, Query(description="id of one request, as in its items")] = None,
    usage: Usage = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Requests that ended, in the order they ended: done, or error with its reason."""
    load_task(task_id)
    rows = of_pages(Page.objects.defer("follow_ups", "request", "exchange"), read_filters(usage))
    if state is not None:
        rows = rows.filter(state=state)
    if rid is not None:
        rows = rows.filter(rid=rid)
    return oldest_first("pages", rows, after, limit, task=task_id)


@router.get("/tasks/{task_id}/pages/{rid}", auth=READ_PAGES, response=PageDetail)
def show_page(request: HttpRequest, task_id: Id, rid: UUID) -> Page:
    """One request that ended, with its HTTP exchange if it ended in error."""
    load_task(task_id)
    rows = Page.objects.defer("follow_ups", "request").filter(rid=rid, task=task_id)
    if (page := rows.select_related("task").first()) is None:
        raise ApiError(404, "unknown_page", f"task {task_id} has no ended request {rid}")
    return page
