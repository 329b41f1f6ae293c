"""Labels of tasks, and the items and pages of all tasks that have one."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Body, Query, Router
from pydantic import AliasChoices, BaseModel, Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING
from crawlservice.api.parts.paging import Id, LabelIs, Limit
from crawlservice.api.parts.schemas import ItemOut, Labels, PageOut, TaskOut
from crawlservice.api.tasks.tasks import load_task, serialized, steered
from crawlservice.models import Item, Page
from crawlservice.tasks.label_rows import Place, rows_of
from crawlservice.tasks.relabel import change_labels


class LabelledItemOut(ItemOut):
    task: int = Field(validation_alias=AliasChoices("task_id", "task"))


class LabelledItemsOut(BaseModel):
    items: list[LabelledItemOut]
    next: str | None = Field(description="there may be fewer rows than `limit` before it")


class LabelledPageOut(PageOut):
    task: int = Field(validation_alias=AliasChoices("task_id", "task"))


class LabelledPagesOut(BaseModel):
    pages: list[LabelledPageOut]
    next: str | None = Field(description="there may be fewer rows than `limit` before it")


router = Router(tags=["labels"])

After = Annotated[
    str | None,
    Query(
        pattern=r"^[0-9]{1,18}-[0-9]{1,18}$",
        description="`next` of the previous page; omit it for the first",
    ),
]


@router.put(
    "/tasks/{task_id}/labels",
    auth=Bearer("submit", "view_task"),
    response={200: TaskOut, **WRITING},
)
def put_labels(request: ApiRequest, task_id: Id, body: Annotated[Labels, Body()]) -> TaskOut:
    """Replaces the labels of a task, whatever its state; `{}` removes them."""
    caller, _ = steered(request, task_id)
    change_labels(task_id, body, caller.who)
    return serialized([load_task(task_id)])[0]


@router.get("/items", auth=Bearer("read", "view_item"), response={200: LabelledItemsOut, **READING})
def labelled_items(
    request: ApiRequest, label: LabelIs, after: After = None, limit: Limit = 100
) -> LabelledItemsOut:
    """Items of all tasks with a label, such as `label=domain=news`: by task, and as they were
    stored."""
    found, following = _page(Item.objects.all(), label, after, limit)
    return LabelledItemsOut(
        items=[LabelledItemOut.model_validate(row, from_attributes=True) for row in found],
        next=following,
    )


@router.get("/pages", auth=Bearer("read", "view_page"), response={200: LabelledPagesOut, **READING})
def labelled_pages(
    request: ApiRequest, label: LabelIs, after: After = None, limit: Limit = 100
) -> LabelledPagesOut:
    """Requests that ended, of all tasks with a label: by task, and in the order they ended."""
    rows = Page.objects.defer("follow_ups", "request")
    found, following = _page(rows, label, after, limit)
    return LabelledPagesOut(
        pages=[LabelledPageOut.model_validate(row, from_attributes=True) for row in found],
        next=following,
    )


def _page(rows: Any, label: str, after: str | None, limit: int) -> tuple[list[Any], str | None]:
    found, reached = rows_of(rows, label, Place.read(after), limit + 1)
    if len(found) > limit:
        last = found[limit - 1]
        return found[:limit], str(Place(last.task_id, last.pk))
    return found, None if reached is None else str(reached)
