"""The items of a task as a table: the columns, and the changes since another run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Query
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import ApiError, Operations, sends
from crawlservice.api.parts.paging import (
    MAX_ID,
    TEXT,
    After,
    Id,
    Limit,
    Usage,
    oldest_first,
    page_of,
)
from crawlservice.api.parts.schemas import ItemOut, Output
from crawlservice.api.tasks.tasks import load_task
from crawlservice.models import Item
from crawlservice.tasks.results import export
from crawlservice.tasks.results.comparison import BadComparison, Change, compared
from crawlservice.tasks.results.item_filter import of_items, read_filters
from crawlservice.tasks.results.item_table import columns, latest

TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
OFFERED = {name: kind for name, kind in TYPES.items() if f".{name}" in export.FORMATS}


class ColumnOut(Output):
    name: str
    types: list[str] = Field(
        description="text, integer, number, boolean, list or object; the most frequent first"
    )
    empty: int = Field(description="items looked at without a value, or with an empty one")
    distinct: int


class ColumnsOut(Output):
    looked: int = Field(description="items looked at, the latest of the task")
    all: bool = Field(description="whether these are all items of the task")
    columns: list[ColumnOut]


class FieldOut(Output):
    old: Any
    new: Any


class ChangeOut(Output):
    kind: Literal["added", "gone", "changed"]
    key: Any
    fields: dict[str, FieldOut] = Field(description="values that differ")

    @staticmethod
    def resolve_fields(change: Change) -> dict[str, dict[str, Any]]:
        return {name: {"old": old, "new": new} for name, (old, new) in change.fields.items()}


class ComparisonOut(Output):
    other: int = Field(description="the task compared with")
    key: str
    keys: list[str] = Field(description="fields that can be the key, the most likely first")
    added: int
    gone: int
    changed: int
    same: int
    repeated: int = Field(description="items with the key of an item before them; not compared")
    unkeyed: int = Field(description="items without a key; not compared")
    changes: list[ChangeOut] = Field(description="the first 1,000 of them")


router = Operations(tags=["items and pages"])
READ = Bearer("read", "view_item")
CHANGES = 1000  # returned at most


@router.get("/tasks/{task_id}/columns", auth=READ, response=ColumnsOut)
def show_columns(request: HttpRequest, task_id: Id) -> dict[str, Any]:
    """The fields of its items: types, empty values, distinct values. Of a large task, only the
    latest items are looked at; see `looked` and `all`."""
    load_task(task_id)
    window = latest(task_id)
    found = columns(window.rows)
    return {"looked": len(window.rows), "all": window.is_all, "columns": found}


@router.get("/tasks/{task_id}/comparison", auth=READ, response=ComparisonOut)
def show_comparison(
    request: HttpRequest,
    task_id: Id,
    other: Annotated[
        int | None,
        Query(ge=1, le=MAX_ID, description="the task to compare with; by default the run before"),
    ] = None,
    key: Annotated[
        str | None,
        Query(min_length=1, max_length=200, pattern=TEXT, description="by default one is chosen"),
    ] = None,
) -> dict[str, Any]:
    """Items added, gone and changed since another run of the spider, by a key. Runs with more than
    1,500 items are refused; the page of the task has a download without that limit."""
    task = load_task(task_id)
    try:
        found = compared(task, other, key or "")
    except BadComparison as error:
        raise ApiError(422, "comparison", str(error)) from None
    return {
        "other": found.old.pk,
        "key": found.key,
        "keys": found.keys,
        **vars(found.counts),
        "changes": found.changes[:CHANGES],
    }


@router.get("/tasks/{task_id}/items", auth=READ, response=page_of("items", ItemOut))
def list_items(
    request: HttpRequest, task_id: Id, after: After = None, limit: Limit = 100, usage: Usage = None
) -> dict[str, Any]:
    """Items in the order they were stored. A running task may get more; those stored at the same
    moment as the last item of a page may come before it."""
    load_task(task_id)
    rows = of_items(Item.objects.all(), read_filters(usage))
    return oldest_first("items", rows, after, limit, task=task_id)


@router.get(
    "/tasks/{task_id}/export",
    auth=READ,
    openapi_extra=sends("The file", *OFFERED.values()),
)
def export_items(
    request: ApiRequest,
    task_id: Id,
    format: Annotated[Literal[tuple(OFFERED)], Query()] = "jsonl",  # type: ignore[valid-type]
    usage: Usage = None,
) -> StreamingHttpResponse:
    """All items, or the items that `usage` selects, as a file, streamed. In CSV, cells that a
    spreadsheet would run as a formula get a leading apostrophe."""
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
