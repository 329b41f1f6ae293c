"""Living nodes: what nodes say about themselves."""

from __future__ import annotations

from collections.abc import Iterator

from crawlframe.frontier import NodeInfo
from crawlservice.alerts.condition import MAX_SUBJECTS, ServiceView


def living(view: ServiceView) -> Iterator[NodeInfo]:
    """The latest life of each node. Raises redis.RedisError."""
    found = {}
    for info in sorted(view.frontier.leases.nodes(), key=lambda info: info.generation):
        if info.lease_left > 0 and not info.leaving:
            found[info.node] = info
    yield from list(found.values())[: MAX_SUBJECTS + 1]
