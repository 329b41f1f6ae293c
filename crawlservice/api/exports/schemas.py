"""What the API accepts and returns about exports."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from crawlservice.api.parts.schemas import StrictInput
from crawlservice.exports.definition import Definition

Begin = Annotated[
    str,
    Field(
        max_length=40,
        description="`beginning`, `now`, a date such as `2026-11-01T06:00Z`, or a row number",
    ),
]


class ExportIn(Definition):
    """A new export. Secrets are stored encrypted and never returned."""

    begin: Begin = "beginning"


class ExportChange(Definition):
    """The whole definition. Masked secrets stay as they are; name and what cannot change."""


class RestartIn(StrictInput):
    """From where on it exports again."""

    begin: Begin


class ExportOut(BaseModel):
    """An export, and how far it is. `position`: number of the last row that was looked at;
    `newest`: of the newest row. `left`: rows that it has not exported yet, null in lists;
    `left_more`: there may be more."""

    name: str
    state: Literal["running", "failing", "paused", "removed"]
    what: Literal["items", "pages"]
    spider: str
    task: int | None
    labels: dict[str, str]
    usage: str
    fields: list[str]
    target: dict[str, Any]
    from_file: bool
    run: int
    position: int
    newest: int
    left: int | None
    left_more: bool | None
    rows: int
    batches: int
    last_batch: str
    last_at: datetime | None
    attempts: int
    next_at: datetime | None
    problem: str
    problem_since: datetime | None
    created_at: datetime


class NewExport(ExportOut):
    """`secret`: with which requests are signed, if it was made now; it is not shown again."""

    secret: str | None = None


class ExportsOut(BaseModel):
    """`file_problems`: what is wrong with exports.toml, as the leading node read it."""

    exports: list[ExportOut]
    file_problems: list[str]
    next: int | None
