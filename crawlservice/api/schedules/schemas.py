"""What the API accepts about schedules."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from crawlservice.api.parts.paging import TEXT
from crawlservice.api.parts.schemas import LABELLED, Given, Labels, Priority, SpiderName

MAX_EVERY = 2**31 - 1  # seconds

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=TEXT)]
Cron = Annotated[str, Field(max_length=100, pattern=TEXT)]
Every = Annotated[int, Field(ge=1, le=MAX_EVERY)]
Zone = Annotated[str, Field(min_length=1, max_length=64, pattern=TEXT)]
Overlap = Literal["skip", "queue", "cancel", "allow"]
Missed = Literal["once", "skip"]
CRON = "minute, hour, day of month, month, day of week, such as `0 6 * * 1-5`; or give `every`"


class ScheduleIn(Given):
    """A new schedule: `cron` or `every`, one of them. Its arguments are checked, so a node must
    have published the spider."""

    name: Name
    spider: SpiderName
    arguments: dict[str, Any] = {}
    priority: Priority = 0
    settings: dict[str, Any] = {}
    labels: Labels = Field({}, description=LABELLED)
    cron: Cron = Field("", description=CRON)
    every: Every | None = Field(None, description="seconds between two starts")
    timezone: Zone = Field("UTC", description="such as Asia/Shanghai")
    overlap: Overlap = Field("skip", description="what to do if the last run is still active")
    missed: Missed = Field("once", description="what to do about starts while no node was running")
    enabled: bool = True


class SchedulePatch(Given):
    """The fields that change; the others stay. `arguments` replace all arguments; a secret is kept
    by giving its mask, `********`."""

    name: Name = ""
    spider: SpiderName = ""
    arguments: dict[str, Any] = {}
    priority: Priority = 0
    settings: dict[str, Any] = {}
    labels: Labels = {}
    cron: Cron = Field("", description=CRON)
    every: Every | None = None
    timezone: Zone = ""
    overlap: Overlap = "skip"
    missed: Missed = "once"
    enabled: bool = True
