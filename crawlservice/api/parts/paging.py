"""Paging: a page starts after the last id of the page before, so all pages cost the same."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from django.db.models import Model, QuerySet
from ninja import Path, Query

from crawlservice.models import LABEL_NAME, LABEL_VALUE
from crawlservice.tasks.results.item_filter import FORM
from crawlservice.tasks.results.task_rows import of_task

M = TypeVar("M", bound=Model)
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
Limit = Annotated[int, Query(ge=1, le=LIMIT, description="maximum number of rows")]


def oldest_first(
    rows: QuerySet[M, Any], after: int | None, limit: int, *, task: int | None = None
) -> tuple[list[M], int | None]:
    """One page, and the id after which the next page starts (None: it is the last). ``task``: only
    rows of this task."""
    if task is not None:
        rows = of_task(rows, task, after=after)
    elif after is not None:
        rows = rows.filter(pk__gt=after).order_by("pk")
    else:
        rows = rows.order_by("pk")
    return _cut(list(rows[: limit + 1]), limit)


def newest_first(
    rows: QuerySet[M, Any], after: int | None, limit: int
) -> tuple[list[M], int | None]:
    """The same, newest first."""
    if after is not None:
        rows = rows.filter(pk__lt=after)
    return _cut(list(rows.order_by("-pk")[: limit + 1]), limit)


def _cut(found: list[M], limit: int) -> tuple[list[M], int | None]:
    page = found[:limit]
    return page, page[-1].pk if len(found) > limit else None
