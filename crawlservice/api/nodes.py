"""Nodes, the code each one runs, and the eras of the data in Redis."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from crawlservice import nodes
from crawlservice.api.auth import Bearer
from crawlservice.api.errors import READING
from crawlservice.api.paging import After, Limit, newest_first
from crawlservice.api.schemas import EraOut, ErasOut, NodeOut, NodesOut
from crawlservice.models import Era

router = Router(tags=["cluster"])


@router.get(
    "/nodes",
    auth=Bearer("read", "view_generation"),
    response={200: NodesOut, **READING},
)
def list_nodes(request: HttpRequest) -> NodesOut:
    """Every life of a node that the cluster knows now."""
    return NodesOut(
        nodes=[NodeOut.model_validate(node, from_attributes=True) for node in nodes.read()]
    )


@router.get("/eras", auth=Bearer("read", "view_era"), response={200: ErasOut, **READING})
def list_eras(request: HttpRequest, after: After = None, limit: Limit = 100) -> ErasOut:
    """When Redis had lost something and was filled again, the latest first."""
    found, following = newest_first(Era.objects.all(), after, limit)
    return ErasOut(
        eras=[EraOut.model_validate(era, from_attributes=True) for era in found], next=following
    )
