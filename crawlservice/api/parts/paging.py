"""Paging: a page starts after the last id of the page before, so all pages cost the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from django.db.models import QuerySet
from ninja import Path, Query, Schema
from pydantic import BaseModel, create_model

from crawlservice.models import LABEL_NAME, LABEL_VALUE
from crawlservice.tasks.results.item_filter import FORM
from crawlservice.tasks.results.task_rows import of_task

MAX_ID = 2**63 - 1  # largest id that a database can have
LIMIT = 1000  # maximum rows of one page
TEXT = r"^[^\x00]*$"  # text that a database accepts
Id = Annotated[int, Path(ge=1, le=MAX_ID)]
After = Annotated[
    int | None,
    Query(ge=0, le=MAX_ID, description="`next` of the previous page; omit it for the first"),
]
Usage = Annotated[
    str | None,
    Query(
        description=f"the page's declaration of its use, such as `ai-train!=no`: {FORM}; of "
        "several, separated by commas, all must hold"
    ),
]
LabelIs = Annotated[
    str, Query(min_length=3, max_length=LABEL_NAME + 1 + LABEL_VALUE, pattern=r"^[A-Za-z0-9._-]+=")
]
OwnerIs = Annotated[
    str,
    Query(
        min_length=1, max_length=100, pattern=TEXT,
        description="an owner of the spider; `mine`: the caller, or a group of the caller",
    ),
]  # fmt: skip
Limit = Annotated[int, Query(ge=1, le=LIMIT, description="maximum number of rows")]


Make = Callable[[Any], Sequence[Any]]


def list_of(name: str, row: type[BaseModel], **more: Any) -> type[BaseModel]:
    """The schema of a list: its rows under ``name``."""
    fields: dict[str, Any] = {name: list[row], **more}  # type: ignore[valid-type]
    return create_model(f"{row.__name__}_{name}", __base__=Schema, **fields)


def page_of(name: str, row: type[BaseModel], **more: Any) -> type[BaseModel]:
    """The schema of a page of a list: its rows under ``name``, and `next`."""
    return list_of(name, row, **more, next=int | None)


def oldest_first(
    name: str,
    rows: QuerySet[Any, Any],
    after: int | None,
    limit: int,
    make: Make = list,
    *,
    task: int | None = None,
) -> dict[str, Any]:
    """One page, and the id after which the next page starts (None: it is the last). ``make``: the
    rows of the page, if they need more than the database has. ``task``: only rows of this task."""
    if task is not None:
        rows = of_task(rows, task, after=after)
    else:
        rows = rows.filter(pk__gt=after or 0).order_by("pk")
    return _page(name, rows, limit, make)


def newest_first(
    name: str, rows: QuerySet[Any, Any], after: int | None, limit: int, make: Make = list
) -> dict[str, Any]:
    """The same, newest first."""
    if after is not None:
        rows = rows.filter(pk__lt=after)
    return _page(name, rows.order_by("-pk"), limit, make)


def _page(name: str, rows: QuerySet[Any, Any], limit: int, make: Make) -> dict[str, Any]:
    found = [*rows[: limit + 1]]
    page = found[:limit]
    return {name: make(page), "next": page[-1].pk if len(found) > limit else None}
