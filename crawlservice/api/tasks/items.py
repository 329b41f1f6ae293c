"""Items of a task: page by page, or all as a file."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Query, Router

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING
from crawlservice.api.parts.paging import After, Id, Limit, Usage, oldest_first
from crawlservice.api.parts.schemas import ItemOut, ItemsOut
from crawlservice.api.tasks.tasks import load_task
from crawlservice.models import Item
from crawlservice.tasks.results import export
from crawlservice.tasks.results.usage_filter import of_items, read_filters

router = Router(tags=["items and pages"])

READ = Bearer("read", "view_item")
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
OFFERED = {name: kind for name, kind in TYPES.items() if f".{name}" in export.FORMATS}


@router.get("/tasks/{task_id}/items", auth=READ, response={200: ItemsOut, **READING})
def list_items(
    request: HttpRequest, task_id: Id, after: After = None, limit: Limit = 100, usage: Usage = None
) -> ItemsOut:
    """Items in the order they were stored. A running task may get more; those stored at the same
    moment as the last item of a page may come before it."""
    load_task(task_id)
    rows = of_items(Item.objects.all(), read_filters(usage))
    found, following = oldest_first(rows, after, limit, task=task_id)
    return ItemsOut(
        items=[ItemOut.model_validate(item, from_attributes=True) for item in found], next=following
    )


@router.get(
    "/tasks/{task_id}/export",
    auth=READ,
    response=READING,
    openapi_extra={
        "responses": {
            200: {
                "description": "The file",
                "content": {kind: {"schema": {"type": "string"}} for kind in OFFERED.values()},
            }
        }
    },
)
def export_items(
    request: ApiRequest,
    task_id: Id,
    format: Annotated[Literal[tuple(OFFERED)], Query()] = "jsonl",  # type: ignore[valid-type]
    usage: Usage = None,
) -> StreamingHttpResponse:
    """All items, or those that `usage` means, as a file, streamed. In CSV, cells that a spreadsheet
    would run as a formula get a leading apostrophe."""
    task = load_task(task_id)
    pieces = export.stream(task, f".{format}", read_filters(usage))
    details = {} if usage is None else {"usage": usage}
    request.auth.record("export", task, format=format, **details)
    name = f"{task.spider}-{task.pk}.{format}"
    return StreamingHttpResponse(
        pieces,
        content_type=OFFERED[format],
        headers={"Content-Disposition": content_disposition_header(True, name) or "attachment"},
    )
