"""What the API accepts and returns of pages that are parsed again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from crawlservice.api.parts.schemas import Priority, StrictInput
from crawlservice.reparse.submission import TEXT

Name = Annotated[str, Field(max_length=TEXT, pattern=r"^[^\x00]*$")]


class SpiderReparseIn(StrictInput):
    """Which kept pages are parsed, and what becomes of them."""

    since: Annotated[datetime, Field(strict=False)] | None = Field(
        None, description="fetched then or later; without a time zone: UTC"
    )
    reason: Name | None = Field(None, description="why they are kept; empty: they are done")
    callback: Name = Field("", description="only pages of this callback")
    key: Name | None = Field(None, description="the field by which items of a page are compared")
    dry_run: bool = Field(False, description="find what would differ, and change nothing")
    priority: Priority = 0


class ReparseIn(SpiderReparseIn):
    """The same for one task."""

    follow: bool = Field(False, description="fetch requests that the task did not know")
    wait: bool = Field(
        False, description="parse also what it has still to fetch, until it has ended"
    )


class ParsedPageOut(BaseModel):
    """A page whose items differ, or that leads to new links."""

    id: int
    source_task: int
    source_rid: UUID
    url: str
    old_version: str
    version: str
    before: int = Field(description="items before")
    after: int
    added: int
    removed: int
    changed: int
    fields: dict[str, int] = Field(description="in how many items each field differs")
    examples: list[dict[str, Any]] = Field(
        description="`kind` (added, removed, changed), `key`, and `fields`: before and after"
    )
    links: int = Field(description="requests that its task did not know")
    repaired: bool = Field(description="it was an error before")
    created_at: datetime


class ChangesOut(BaseModel):
    """What came of the pages that a task has parsed, or would have come in a dry run."""

    parses: dict[str, Any] = Field(description="which pages, as they were asked for")
    pages: int = Field(description="that differ")
    repaired: int = Field(description="pages in error that are done now")
    added: int
    removed: int
    changed: int
    links: int = Field(description="requests that their tasks did not know")
    fields: dict[str, int] = Field(description="in how many items each field differs")
    complete: bool = Field(description="whether the fields of all pages are counted")
    examples: list[ParsedPageOut]
    next: int | None = Field(description="pass it as `after` for the next pages; null: no more")
