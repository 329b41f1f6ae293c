"""Hosts: list, show, pause, resume, order, clear, and forget robots.txt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from ninja import Body, Path, Query, Router, Status

from crawlservice.api.hosts.schemas import HostOrderIn, HostOut, HostPauseIn, HostsOut
from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING
from crawlservice.api.parts.paging import TEXT, After, Limit, newest_first
from crawlservice.hosts import orders
from crawlservice.hosts.lists import Which, chosen
from crawlservice.hosts.names import get_host
from crawlservice.hosts.orders import Terms
from crawlservice.hosts.states import described, read
from crawlservice.models import HOST, Host
from crawlservice.tasks.submit import RedisNotUpdated

router = Router(tags=["hosts"])

READ = Bearer("read", "view_host")
STEER = Bearer("operate", "steer_task")

Name = Annotated[str, Path(min_length=1, max_length=HOST, pattern=TEXT)]


@router.get("/hosts", auth=READ, response={200: HostsOut, **READING})
def list_hosts(
    request: ApiRequest,
    q: Annotated[
        str | None,
        Query(min_length=1, max_length=HOST, pattern=TEXT, description="how the name begins"),
    ] = None,
    which: Annotated[
        Which | None, Query(description="only hosts that are held, paused, ordered or have errors")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> HostsOut:
    """Hosts that were fetched from, the latest first."""
    rows = chosen(which, q or "").select_related("ordered_by")
    found, following = newest_first(rows, after, limit)
    return HostsOut(hosts=[HostOut(**described(now)) for now in read(found)], next=following)


@router.get("/hosts/{name}", auth=READ, response={200: HostOut, **READING})
def show_host(request: ApiRequest, name: Name) -> HostOut:
    """One host: what was fetched of it, what is ordered for it, and its state now."""
    return _show(name)


@router.post("/hosts/{name}/pause", auth=STEER, response={(200, 202): HostOut, **WRITING})
def pause_host(
    request: ApiRequest, name: Name, body: Annotated[HostPauseIn | None, Body()] = None
) -> Status[HostOut]:
    """Stops fetching from it, for all tasks, until it is resumed or `until` has come. The host need
    not be known yet.

    202: Redis is unreachable; the nodes apply this when it is back."""
    terms = Terms() if body is None else Terms(body.until, body.note)
    return _decide(request, name, lambda who: orders.pause(name, who, terms))


@router.post("/hosts/{name}/resume", auth=STEER, response={(200, 202): HostOut, **WRITING})
def resume_host(request: ApiRequest, name: Name) -> Status[HostOut]:
    """Ends its pause, and its rest if it refused, blocked or was unreachable. Limits that were
    ordered stay."""
    return _decide(request, name, lambda who: orders.resume(name, who))


@router.put("/hosts/{name}/order", auth=STEER, response={(200, 202): HostOut, **WRITING})
def order_host(
    request: ApiRequest, name: Name, body: Annotated[HostOrderIn, Body()]
) -> Status[HostOut]:
    """Orders a delay, a concurrency and further rules, in place of those of all tasks and of an
    earlier order."""

    def do(who: dict[str, Any]) -> Host:
        terms = Terms(body.until, body.note)
        limits = {"delay": body.delay, "concurrency": body.concurrency, "rules": body.rules}
        return orders.order(name, who, terms=terms, **limits)  # type: ignore[arg-type]

    return _decide(request, name, do)


@router.delete("/hosts/{name}/order", auth=STEER, response={(200, 202): HostOut, **WRITING})
def clear_host(request: ApiRequest, name: Name) -> Status[HostOut]:
    """Ends its order, pause included: the limits of each task hold again."""
    return _decide(request, name, lambda who: orders.clear(name, who))


@router.post("/hosts/{name}/forget-robots", auth=STEER, response={(200, 202): HostOut, **WRITING})
def forget_robots(request: ApiRequest, name: Name) -> Status[HostOut]:
    """Makes tasks that obey it fetch its robots.txt again before anything else."""
    return _decide(request, name, lambda who: orders.forget_robots(name, who))


def _decide(
    request: ApiRequest, name: str, do: Callable[[dict[str, Any]], Host]
) -> Status[HostOut]:
    caller = request.auth
    status = 200
    try:
        do(caller.who)
    except RedisNotUpdated:
        status = 202
    return Status(status, _show(name))


def _show(name: str) -> HostOut:
    return HostOut(**described(read([get_host(name)])[0]))
