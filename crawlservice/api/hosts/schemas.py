"""What the API accepts and returns about hosts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, Field

from crawlframe import gates
from crawlservice.api.parts.paging import TEXT
from crawlservice.api.parts.schemas import StrictInput
from crawlservice.hosts.orders import MAX_CONCURRENCY, MAX_DELAY
from crawlservice.hosts.rules import RULES
from crawlservice.models import NOTE

LONGEST_RULE = 100  # characters
Until = Annotated[AwareDatetime, Field(strict=False)]  # JSON has no type for times
Note = Annotated[str, Field(max_length=NOTE, pattern=TEXT)]


class HostPauseIn(StrictInput):
    until: Until | None = Field(None, description="null: until it is resumed")
    note: Note = ""


class HostOrderIn(StrictInput):
    """`delay`, `concurrency` and `rules`, at least one of them."""

    delay: Annotated[float, Field(ge=0, le=MAX_DELAY)] | None = Field(
        None, description="seconds between two requests"
    )
    concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY)] | None = Field(
        None, description="requests in flight"
    )
    rules: dict[str, Annotated[str, Field(max_length=LONGEST_RULE, pattern=TEXT)]] = Field(
        {}, description=f"further rules by name: {', '.join(gates.names()) or 'there are none'}"
    )
    until: Until | None = Field(None, description="null: until it is cleared")
    note: Note = ""


class HostOut(BaseModel):
    """A host. What is known of this instant comes from Redis, and is empty unless `live`."""

    id: int
    name: str
    condition: Literal[
        "unknown", "paused", "held", "resting", "robots", "waiting", "crawling", "idle"
    ]
    why: str = Field(description=f"why it does not go on, in one word: {', '.join(RULES)}")
    until: datetime | None = Field(
        description="when the condition ends by itself; null: unknown, or not by itself"
    )
    live: bool
    queued: int = Field(description="ready requests")
    in_flight: int
    rate: float = Field(description="fetches per second in the last minute")
    allowed: float | None = Field(
        description="requests per second that the delay allows; null: it sets no limit"
    )
    gap: float | None = Field(description="seconds between two requests now")
    adaptive: bool = Field(description="whether the gap follows what the host bears")
    concurrency_in_force: int | None
    blocks: int = Field(description="blocks among the last `block_window` pages")
    block_window: int
    address: str = Field(description="IP address of the last connection")
    robots_until: datetime | None = Field(description="until when its robots.txt is known")
    robots_wait: datetime | None = Field(
        description="when its robots.txt is tried again; requests that obey it wait until then"
    )
    robots_delay: float = Field(description="seconds that its robots.txt asks for")
    first_at: datetime
    last_at: datetime | None
    pages: int
    errors: int
    bytes: int
    statuses: dict[str, int] = Field(description="fetches by status; 0: no answer")
    latency_ms: float | None
    last_status: int | None
    last_reason: str
    held_since: datetime | None
    delay: float | None = Field(description="ordered, in seconds")
    concurrency: int | None = Field(description="ordered")
    rules: dict[str, str] = Field(description="ordered, further rules by name")
    paused: bool
    order_until: datetime | None
    note: str
    ordered_by: str | None
    ordered_at: datetime | None


class HostsOut(BaseModel):
    hosts: list[HostOut]
    next: int | None
