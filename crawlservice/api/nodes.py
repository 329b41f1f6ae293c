"""Nodes, the code each one runs, and the eras of the data in Redis."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Router, Status

from crawlservice.api.parts.auth import ApiRequest, Bearer
from crawlservice.api.parts.errors import READING, WRITING
from crawlservice.api.parts.paging import TEXT, After, Limit, newest_first
from crawlservice.api.parts.schemas import EraOut, ErasOut, NodeOut, NodesOut
from crawlservice.models import Era
from crawlservice.monitoring import lives, nodes

router = Router(tags=["cluster"])


@router.get(
    "/nodes",
    auth=Bearer("read", "view_generation"),
    response={200: NodesOut, **READING},
)
def list_nodes(request: HttpRequest) -> NodesOut:
    """Every life of a node that the cluster knows now, and the nodes that died and have neither
    come back nor been forgotten."""
    return NodesOut(
        nodes=[NodeOut.model_validate(node, from_attributes=True) for node in nodes.read()],
        unreadable=nodes.unreadable(),
    )


@router.delete(
    "/nodes/{name}",
    auth=Bearer("operate", "forget_generation"),
    response={204: None, **WRITING},
)
def forget_node(
    request: ApiRequest,
    name: Annotated[str, Path(min_length=1, max_length=100, pattern=TEXT)],
) -> Status[None]:
    """Removes an offline node from the list."""
    lives.forget(name)
    caller = request.auth
    caller.record("forget node", node=name)
    return Status(204, None)


@router.get("/eras", auth=Bearer("read", "view_era"), response={200: ErasOut, **READING})
def list_eras(request: HttpRequest, after: After = None, limit: Limit = 100) -> ErasOut:
    """When Redis had lost data and was filled again, the latest first."""
    found, following = newest_first(Era.objects.all(), after, limit)
    return ErasOut(
        eras=[EraOut.model_validate(era, from_attributes=True) for era in found], next=following
    )
