"""What the API accepts and returns about spiders."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from crawlservice.api.parts.paging import TEXT
from crawlservice.api.parts.schemas import Given, Outcome
from crawlservice.models import WHY


class DisableIn(Given):
    """Why nothing may start the spider; everybody sees it."""

    reason: Annotated[str, Field(min_length=1, max_length=WHY, pattern=TEXT)]


class DisabledOut(BaseModel):
    reason: str
    user: str | None
    at: datetime


class LastRunOut(BaseModel):
    """The latest task of a spider. Numbers of one that has not ended are 0."""

    task: int
    state: str
    outcome: Outcome | None
    created_at: datetime
    finished_at: datetime | None
    items: int
    errors: int


class SpiderOut(BaseModel):
    name: str
    doc: str
    arguments: dict[str, Any] = Field(description="JSON schema")
    settings: dict[str, Any]
    published: bool = Field(description="whether a node that lives has it, or a recipe")
    disabled: DisabledOut | None = Field(description="null: it is enabled")
    last: LastRunOut | None = Field(description="null: it has never run")


class SpidersOut(BaseModel):
    spiders: list[SpiderOut]
