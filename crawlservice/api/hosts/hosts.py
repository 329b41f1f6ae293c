"""Hosts: list, show, pause, resume, order, clear, and forget robots.txt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Path, Query, Status
from pydantic import AwareDatetime, Field

from crawlframe import gates
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations, status_of
from crawlservice.api.parts.paging import TEXT, After, Limit, newest_first, page_of
from crawlservice.api.parts.schemas import Output, StrictInput
from crawlservice.hosts import orders
from crawlservice.hosts.orders import MAX_CONCURRENCY, MAX_DELAY, Terms, get_host
from crawlservice.hosts.rules import RULES, Which, chosen
from crawlservice.hosts.states import described, read
from crawlservice.models import HOST, NOTE, Host

LONGEST_RULE = 100  # characters
Until = Annotated[AwareDatetime, Field(strict=False)]  # JSON has no type for times
Note = Annotated[str, Field(max_length=NOTE, pattern=TEXT)]
router = Operations(tags=["hosts"])
READ = Bearer("read", "view_host")
STEER = Bearer("operate", "steer_task")
Name = Annotated[str, Path(min_length=1, max_length=HOST, pattern=TEXT)]


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


class HostOut(Output):
    """A host. Its present state comes from Redis, and is empty unless `live`."""

    id: int
    name: str
    condition: Literal[
        "unknown", "paused", "held", "resting", "robots", "waiting", "crawling", "idle"
    ]
    why: str = Field(description=f"why it waits, in one word: {', '.join(RULES)}")
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
    adaptive: bool = Field(description="whether the gap follows the host's capacity")
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


CHANGED = {(200, 202): HostOut}


@router.get("/hosts", auth=READ, response=page_of("hosts", HostOut))
def list_hosts(
    request: ApiRequest,
    q: Annotated[
        str | None,
        Query(min_length=1, max_length=HOST, pattern=TEXT, description="start of the name"),
    ] = None,
    which: Annotated[
        Which | None, Query(description="only hosts that are held, paused, ordered or have errors")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Hosts that were fetched from, the latest first."""
    rows = chosen(which, q or "").select_related("ordered_by")
    return newest_first("hosts", rows, after, limit, lambda some: [*map(described, read(some))])


@router.get("/hosts/{name}", auth=READ, response=HostOut)
def show_host(request: ApiRequest, name: Name) -> dict[str, Any]:
    """One host: its statistics, orders and present state."""
    return described(read([get_host(name)])[0])


@router.post("/hosts/{name}/pause", auth=STEER, response=CHANGED)
def pause_host(request: ApiRequest, name: Name, body: HostPauseIn | None = None) -> Status[Any]:
    """Stops fetching from it, for all tasks, until it is resumed or `until` has come. The host need
    not be known yet.

    202: Redis is unreachable; the nodes apply this when it is back."""
    terms = Terms() if body is None else Terms(body.until, body.note)
    return _decide(request, name, orders.pause, terms=terms)


@router.post("/hosts/{name}/resume", auth=STEER, response=CHANGED)
def resume_host(request: ApiRequest, name: Name) -> Status[Any]:
    """Ends its pause, and its rest if it refused, blocked or was unreachable. Limits that were
    ordered stay."""
    return _decide(request, name, orders.resume)


@router.put("/hosts/{name}/order", auth=STEER, response=CHANGED)
def order_host(request: ApiRequest, name: Name, body: HostOrderIn) -> Status[Any]:
    """Orders a delay, a concurrency and further rules, in place of the settings of all tasks and of
    an earlier order."""
    limits = body.model_dump(exclude={"until", "note"})
    return _decide(request, name, orders.order, terms=Terms(body.until, body.note), **limits)


@router.delete("/hosts/{name}/order", auth=STEER, response=CHANGED)
def clear_host(request: ApiRequest, name: Name) -> Status[Any]:
    """Ends its order, pause included: the limits of each task hold again."""
    return _decide(request, name, orders.clear)


@router.post("/hosts/{name}/forget-robots", auth=STEER, response=CHANGED)
def forget_robots(request: ApiRequest, name: Name) -> Status[Any]:
    """Makes tasks that obey it fetch its robots.txt again before anything else."""
    return _decide(request, name, orders.forget_robots)


def _decide(request: ApiRequest, name: str, do: Callable[..., Host], **more: Any) -> Status[Any]:
    status = status_of(do, name, request.auth.who, **more)
    return Status(status, described(read([get_host(name)])[0]))
