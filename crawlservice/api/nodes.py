"""Nodes, the code each one runs, and the eras of the data in Redis."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Status
from pydantic import Field

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import Operations
from crawlservice.api.parts.paging import TEXT, After, Limit, list_of, newest_first, page_of
from crawlservice.api.parts.schemas import Output
from crawlservice.models import Era
from crawlservice.monitoring import lives, nodes

Unreadable = Annotated[
    int, Field(description="rows of Redis that could not be read and were set aside")
]
router = Operations(tags=["cluster"])


class NodeOut(Output):
    """One life of a node. `state` is loading, live, checking, refused, leaving or offline;
    `condition` offline, leaving, loading, abnormal, busy or idle; `troubles`, in words, say why it
    is abnormal where `problem` and `pull_problem` do not. A node that died stays listed, offline
    since `since`, until it comes back or is forgotten."""

    node: str
    generation: int
    machine: str
    pid: int
    workers: int
    state: str
    version: str
    skew: bool
    candidate: str
    asks: bool = Field(description="whether the candidate goes live if it is accepted")
    refused_by: str = Field(description="name of the operator that has refused it")
    problem: str
    since: datetime | None
    seconds: float
    reloads: int
    follows: str
    pulled: str
    pull_problem: str
    condition: str
    troubles: list[str]
    holds: int
    given_back: int = Field(description="requests that it held when it died")
    share: float | None = Field(description="part of all hosts that prefer it; null: no affinity")


class EraOut(Output):
    number: int
    reason: str
    started_at: datetime
    opened_at: datetime | None


@router.get(
    "/nodes",
    auth=Bearer("read", "view_generation"),
    response=list_of("nodes", NodeOut, unreadable=Unreadable),
)
def list_nodes(request: HttpRequest) -> dict[str, Any]:
    """Every life of a node that the cluster knows now, and the nodes that died and have neither
    come back nor been forgotten."""
    return {"nodes": nodes.read(), "unreadable": nodes.unreadable()}


@router.delete(
    "/nodes/{name}",
    auth=Bearer("operate", "forget_generation"),
    response={204: None},
)
def forget_node(
    request: ApiRequest,
    name: Annotated[str, Path(min_length=1, max_length=100, pattern=TEXT)],
) -> Status[None]:
    """Removes an offline node from the list."""
    lives.forget(name)
    request.auth.record("forget node", node=name)
    return Status(204, None)


@router.get("/eras", auth=Bearer("read", "view_era"), response=page_of("eras", EraOut))
def list_eras(request: HttpRequest, after: After = None, limit: Limit = 100) -> dict[str, Any]:
    """When Redis had lost data and was filled again, the latest first."""
    return newest_first("eras", Era.objects.all(), after, limit)
