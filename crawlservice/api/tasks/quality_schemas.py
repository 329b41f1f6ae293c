"""What the API returns of the quality of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field


class ExampleOut(BaseModel):
    item: int | None = Field(description="null: the page itself is the example")
    rid: UUID
    url: str
    value: Any = Field(description="of the field; of a page, the reason of its error")


class FindingOut(BaseModel):
    text: str
    source: Literal["expectation", "monitor"] = Field(
        description="what the author of the spider expects, or what earlier runs were like"
    )
    monitor: str = Field(description="such as items, filled or errors")
    field: str = Field(description="empty: it is about the run")
    subject: str = Field(description="such as a status, a section of the site, or a value")
    unit: Literal["share", "count", "seconds", "chars", "number"]
    low: float | None = Field(description="expected at least")
    high: float | None = Field(description="expected at most")
    usual: float | None = Field(description="the median of the good runs")
    seen: float
    runs: int = Field(description="good runs that it was compared with")
    since: datetime | None = Field(description="null: since the start of the run")
    version: str = Field(description="code that ran when it was found")
    last_good: int | None = Field(description="the last good task")
    good_version: str = Field(description="code that ran most of it")
    accepted_at: datetime | None
    found_at: datetime
    examples: list[ExampleOut] = Field(description="empty for callers who may not see items")


class QualityOut(BaseModel):
    task: int
    outcome: Literal["finished", "finished_with_errors", "failed", "cancelled"] | None
    judged: bool = Field(description="whether the end of the task was judged")
    good: bool = Field(description="whether later runs are compared with it")
    expect: dict[str, Any] | None = Field(description="what the author of the spider expects")
    coverage: dict[str, float] = Field(
        description="by field: the share of items in which it has a value"
    )
    findings: list[FindingOut]
