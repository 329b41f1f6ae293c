"""Files that the pages of a task have saved."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import FileResponse, HttpRequest
from ninja import Path, Query
from pydantic import BeforeValidator, Field

from crawlframe.errors import StoreError
from crawlframe.files.store import path_of
from crawlservice.api.parts.auth import Bearer
from crawlservice.api.parts.errors import ApiError, Operations, sends
from crawlservice.api.parts.paging import After, Id, Limit, oldest_first, page_of
from crawlservice.api.parts.schemas import Output
from crawlservice.api.tasks.tasks import load_task
from crawlservice.files import download
from crawlservice.models import PageFile

router = Operations(tags=["items and pages"])

READ = Bearer("read", "view_page")
Sha256 = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


class FileOut(Output):
    id: int
    rid: UUID = Field(description="of the request that saved it")
    url: str
    path: Annotated[str, BeforeValidator(path_of)] = Field(
        validation_alias="file_id", description="in the file store, as in items"
    )
    sha256: str = Field(validation_alias="file_id")
    size: int = Field(validation_alias="file.size", description="bytes")
    media_type: str = Field(validation_alias="file.media_type")
    kind: str = Field(description="screenshot, pdf or failure: taken by a browser; else empty")


@router.get("/tasks/{task_id}/files", auth=READ, response=page_of("files", FileOut))
def list_files(
    request: HttpRequest,
    task_id: Id,
    rid: Annotated[UUID | None, Query(description="only of this request")] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Files that the pages of a task have saved, in the order they were stored."""
    load_task(task_id)
    rows = PageFile.objects.select_related("file")
    if rid is not None:
        rows = rows.filter(rid=rid)
    return oldest_first("files", rows, after, limit, task=task_id)


@router.get(
    "/tasks/{task_id}/files/{sha256}",
    auth=READ,
    openapi_extra=sends("The file", "application/octet-stream"),
)
def download_file(request: HttpRequest, task_id: Id, sha256: Sha256) -> FileResponse:
    """A file, as an attachment, whatever its media type is."""
    load_task(task_id)
    row = PageFile.objects.select_related("file").filter(task=task_id, file=sha256).first()
    if row is None:
        raise ApiError(404, "unknown_file", f"no page of task {task_id} has saved {sha256}")
    try:
        return download.answer(row)
    except StoreError as error:
        raise ApiError(503, "store_away", str(error)) from None
