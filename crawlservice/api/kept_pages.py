"""Kept pages of a task, as a file."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router

from crawlframe.errors import StoreError
from crawlframe.warc import FORMATS
from crawlservice.api.auth import Bearer
from crawlservice.api.errors import READING, ApiError
from crawlservice.api.paging import Id
from crawlservice.api.tasks import load_task
from crawlservice.models import KeptPage
from crawlservice.pages.export import NAMES, PagesExport

router = Router(tags=["items and pages"])

READ = Bearer("read", "view_page")


@router.get(
    "/tasks/{task_id}/kept-pages/export",
    auth=READ,
    response=READING,
    openapi_extra={
        "responses": {
            200: {
                "description": "The file",
                "content": {kind: {"schema": {"type": "string"}} for kind in FORMATS.values()},
            }
        }
    },
)
def export_pages(
    request: HttpRequest,
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
    request.auth.record("export pages", task, format=format)  # type: ignore[attr-defined]
    return StreamingHttpResponse(
        pieces,
        content_type=FORMATS[suffix],
        headers={"Content-Disposition": f'attachment; filename="task-{task.pk}{suffix}"'},
    )
