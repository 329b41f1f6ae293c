"""What the API returns of tasks that have a label."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, Field

from crawlservice.api.parts.schemas import ItemOut, PageOut


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
