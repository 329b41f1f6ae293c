"""Pages of a task: the ledger, one row per request that ended."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from crawlservice.api.error_groups.schemas import PageDetail
from crawlservice.api.parts.auth import Bearer
from crawlservice.api.parts.errors import READING, ApiError
from crawlservice.api.parts.paging import After, Id, Limit, Usage, oldest_first
from crawlservice.api.parts.schemas import PageOut, PagesOut
from crawlservice.api.tasks.tasks import load_task
from crawlservice.models import Page
from crawlservice.tasks.results.usage_filter import of_pages, read_filters

router = Router(tags=["items and pages"])

READ = Bearer("read", "view_page")


@router.get("/tasks/{task_id}/pages", auth=READ, response={200: PagesOut, **READING})
def list_pages(
    request: HttpRequest,
    task_id: Id,
    state: Annotated[Literal["done", "error"] | None, Query()] = None,
    rid: Annotated[UUID | None, Query(description="id of one request, as in its items")] = None,
    usage: Usage = None,
    after: After = None,
    limit: Limit = 100,
) -> PagesOut:
    """Requests that ended, in the order they ended: done, or error with its reason."""
    load_task(task_id)
    rows = of_pages(Page.objects.defer("follow_ups", "request", "exchange"), read_filters(usage))
    if state is not None:
        rows = rows.filter(state=state)
    if rid is not None:
        rows = rows.filter(rid=rid)
    found, following = oldest_first(rows, after, limit, task=task_id)
    return PagesOut(
        pages=[PageOut.model_validate(page, from_attributes=True) for page in found], next=following
    )


@router.get("/tasks/{task_id}/pages/{rid}", auth=READ, response={200: PageDetail, **READING})
def show_page(request: HttpRequest, task_id: Id, rid: UUID) -> PageDetail:
    """One request that ended, with what was sent and received if it ended in error."""
    task = load_task(task_id)
    rows = Page.objects.defer("follow_ups", "request").filter(rid=rid, task=task_id)
    if (page := rows.first()) is None:
        raise ApiError(404, "unknown_page", f"task {task_id} has no ended request {rid}")
    known = PageOut.model_validate(page, from_attributes=True)
    return PageDetail(
        **known.model_dump(),
        task=task_id,
        spider=task.spider,
        error_group=page.error_group,
        exchange=page.exchange,
    )
