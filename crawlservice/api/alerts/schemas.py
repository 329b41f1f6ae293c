"""What the API accepts and returns about alerts."""

from __future__ import annotations

from datetime import datetime, time
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from crawlservice.alerts.state import LONGEST_SILENCE
from crawlservice.api.parts.paging import TEXT
from crawlservice.api.parts.schemas import StrictInput

SeverityWord = Literal["notice", "warning", "severe"]
StateWord = Literal["open", "acknowledged", "silenced", "resolved"]
KindWord = Literal["mail", "service", "webhook"]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
Names = Annotated[list[Annotated[str, Field(max_length=300, pattern=TEXT)]], Field(max_length=200)]
Clock = Annotated[time, Field(strict=False)]  # JSON has no type for times


class AlertOut(BaseModel):
    """A condition that was found. `link` is the path of the page of its cause."""

    id: int
    condition: str
    severity: SeverityWord
    text: str
    link: str
    value: float | None = Field(description="what thresholds are compared with")
    spider: str | None
    host: str | None
    labels: dict[str, str]
    since: datetime = Field(description="when the condition began")
    found_at: datetime
    seen_at: datetime
    resolved_at: datetime | None
    state: StateWord
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    silenced_until: datetime | None


class AlertsOut(BaseModel):
    alerts: list[AlertOut]
    next: int | None
    checked_at: datetime | None = Field(
        description="when the leading node looked last; null: none ever has"
    )


class SilenceIn(StrictInput):
    hours: Annotated[float, Field(gt=0, le=LONGEST_SILENCE)]


class TargetIn(StrictInput):
    name: Name
    kind: KindWord
    address: Annotated[str, Field(max_length=2000, pattern=TEXT)] = Field(
        "", description="mail addresses, or the URL of a service; empty for a webhook"
    )
    webhook: str | None = Field(None, description="the name of a webhook")


class TargetOut(BaseModel):
    """A target. `shown` is its address without what is secret in it."""

    id: int
    name: str
    kind: KindWord
    shown: str
    webhook: str | None
    enabled: bool


class TargetsOut(BaseModel):
    targets: list[TargetOut]


class TestOut(BaseModel):
    ok: bool
    problem: str = Field(description="why the message did not arrive; empty if it did")
    reply: str = Field(description="of the target")


class RuleIn(StrictInput):
    """A rule. What is left out has its usual value."""

    name: Name
    enabled: bool = True
    targets: Names = Field(default_factory=list, description="names of targets")
    conditions: Names = Field(default_factory=list, description="empty: all")
    thresholds: dict[str, float] = Field(
        default_factory=dict, description="by condition, instead of the usual ones"
    )
    least_severity: SeverityWord = "warning"
    spiders: Names = Field(default_factory=list)
    hosts: Names = Field(default_factory=list)
    labels: Names = Field(default_factory=list, description="such as team=red")
    group_minutes: Annotated[int, Field(ge=0, le=1440)] = 5
    quiet_from: Clock | None = None
    quiet_until: Clock | None = None
    timezone: Annotated[str, Field(max_length=64, pattern=TEXT)] = "UTC"
    severe_passes: bool = True
    repeat_hours: Annotated[int, Field(ge=0, le=720)] = Field(24, description="0: never")
    reports_resolved: bool = True


class RuleOut(BaseModel):
    id: int
    name: str
    enabled: bool
    targets: list[str]
    conditions: list[str]
    thresholds: dict[str, float]
    least_severity: SeverityWord
    spiders: list[str]
    hosts: list[str]
    labels: list[str]
    group_minutes: int
    quiet_from: time | None
    quiet_until: time | None
    timezone: str
    severe_passes: bool
    repeat_hours: int
    reports_resolved: bool


class RulesOut(BaseModel):
    rules: list[RuleOut]


class MessageOut(BaseModel):
    id: int
    target: str
    rule: str | None
    condition: str
    severity: SeverityWord
    title: str
    text: str
    state: Literal["waiting", "retrying", "sent", "failed"]
    attempts: int
    next_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    problem: str
    reply: str


class MessagesOut(BaseModel):
    messages: list[MessageOut]
    next: int | None
