"""Labels of tasks, and the items and pages of all tasks that have one."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Body, Query
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import Id, LabelIs, Limit, list_of
from crawlservice.api.parts.schemas import ItemOut, Labels, PageOut, TaskOut
from crawlservice.api.tasks.tasks import STEER, load_task, serialized, steered
from crawlservice.models import Item, Page
from crawlservice.tasks.label_rows import Place, rows_of
from crawlservice.tasks.labels import change_labels


class LabelledItemOut(ItemOut):
    task: int = Field(validation_alias="task_id")


class LabelledPageOut(PageOut):
    task: int = Field(validation_alias="task_id")


Next = Annotated[str | None, Field(description="there may be fewer rows than `limit` before it")]
router = Operations(tags=["labels"])

After = Annotated[
    str | None,
    Query(
        pattern=r"^[0-9]{1,18}-[0-9]{1,18}$",
        description="`next` of the previous page; omit it for the first",
    ),
]


@router.put("/tasks/{task_id}/labels", auth=STEER, response=TaskOut)
def put_labels(request: ApiRequest, task_id: Id, body: Annotated[Labels, Body()]) -> TaskOut:
    """Replaces the labels of a task, whatever its state; `{}` removes them."""
    caller, _ = steered(request, task_id)
    change_labels(task_id, body, caller.who)
    return serialized([load_task(task_id)])[0]


@router.get(
    "/items",
    auth=Bearer("read", "view_item"),
    response=list_of("items", LabelledItemOut, next=Next),
)
def labelled_items(
    request: ApiRequest, label: LabelIs, after: After = None, limit: Limit = 100
) -> dict[str, Any]:
    """Items of all tasks with a label, such as `label=domain=news`: by task, and as they were
    stored."""
    return _page("items", Item.objects.all(), label, after, limit)


@router.get(
    "/pages",
    auth=Bearer("read", "view_page"),
    response=list_of("pages", LabelledPageOut, next=Next),
)
def labelled_pages(
    request: ApiRequest, label: LabelIs, after: After = None, limit: Limit = 100
) -> dict[str, Any]:
    """Requests that ended, of all tasks with a label: by task, and in the order they ended."""
    return _page("pages", Page.objects.defer("follow_ups", "request"), label, after, limit)


def _page(name: str, rows: Any, label: str, after: str | None, limit: int) -> dict[str, Any]:
    found, reached = rows_of(rows, label, Place.read(after), limit + 1)
    if len(found) > limit:
        found = found[:limit]
        reached = Place(found[-1].task_id, found[-1].pk)
    return {name: found, "next": None if reached is None else str(reached)}
