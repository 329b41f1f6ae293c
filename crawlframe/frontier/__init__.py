"""The frontier: all state of requests that is kept in Redis."""

from typing import TYPE_CHECKING, Any

from crawlframe.frontier.client.records import (
    Claim,
    Claimed,
    Completion,
    Counts,
    FreedSlot,
    TaskLimits,
)
from crawlframe.frontier.cluster.nodes import NodeInfo

if TYPE_CHECKING:
    from crawlframe.frontier.frontier import Frontier

__all__ = [
    "Claim",
    "Claimed",
    "Completion",
    "Counts",
    "FreedSlot",
    "Frontier",
    "NodeInfo",
    "TaskLimits",
]


def __getattr__(name: str) -> Any:
    if name != "Frontier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crawlframe.frontier.frontier import Frontier  # with Redis, which supervisors do without

    return Frontier
