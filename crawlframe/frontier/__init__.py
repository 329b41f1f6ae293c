"""The frontier: all state of requests that is kept in Redis."""

from crawlframe.frontier.client.records import (
    Claim,
    Claimed,
    Completion,
    Counts,
    FreedSlot,
    TaskLimits,
)
from crawlframe.frontier.cluster.nodes import NodeInfo
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
