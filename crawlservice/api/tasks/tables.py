"""The items of a task as a table: what is in each column, and what changed since another run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import BaseModel, Field

from crawlservice.api.parts.auth import Bearer
from crawlservice.api.parts.errors import READING, ApiError
from crawlservice.api.parts.paging import MAX_ID, TEXT, Id
from crawlservice.api.tasks.tasks import load_task
from crawlservice.tasks.results.comparison import BadComparison, compared
from crawlservice.tasks.results.item_table import columns, latest


class ColumnOut(BaseModel):
    name: str
    types: list[str] = Field(
        description="text, integer, number, boolean, list or object; the most frequent first"
    )
    empty: int = Field(description="items looked at without a value, or with an empty one")
    distinct: int


class ColumnsOut(BaseModel):
    looked: int = Field(description="items looked at, the latest of the task")
    all: bool = Field(description="whether these are all items of the task")
    columns: list[ColumnOut]


class FieldOut(BaseModel):
    old: Any
    new: Any


class ChangeOut(BaseModel):
    kind: Literal["added", "gone", "changed"]
    key: Any
    fields: dict[str, FieldOut] = Field(description="those that differ")


class ComparisonOut(BaseModel):
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


router = Router(tags=["items and pages"])

READ = Bearer("read", "view_item")
CHANGES = 1000  # returned at most


@router.get("/tasks/{task_id}/columns", auth=READ, response={200: ColumnsOut, **READING})
def show_columns(request: HttpRequest, task_id: Id) -> ColumnsOut:
    """The fields of its items: types, empty values, distinct values. Of a large task, only the
    latest items are looked at; see `looked` and `all`."""
    load_task(task_id)
    window = latest(task_id)
    return ColumnsOut(
        looked=len(window.rows),
        all=window.is_all,
        columns=[ColumnOut(**one._asdict()) for one in columns(window.rows)],
    )


@router.get("/tasks/{task_id}/comparison", auth=READ, response={200: ComparisonOut, **READING})
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
) -> ComparisonOut:
    """What is added, gone and changed since another run of the spider, by a key. Runs with more
    than 1,500 items are refused; the page of the task has a download without that limit."""
    task = load_task(task_id)
    try:
        found = compared(task, other, key or "")
    except BadComparison as error:
        raise ApiError(422, "comparison", str(error)) from None
    counts = found.counts
    return ComparisonOut(
        other=found.old.pk,
        key=found.key,
        keys=found.keys,
        added=counts.added,
        gone=counts.gone,
        changed=counts.changed,
        same=counts.same,
        repeated=counts.repeated,
        unkeyed=counts.unkeyed,
        changes=[
            ChangeOut(
                kind=one.kind,  # type: ignore[arg-type]
                key=one.key,
                fields={n: FieldOut(old=old, new=new) for n, (old, new) in one.fields.items()},
            )
            for one in found.changes[:CHANGES]
        ],
    )
