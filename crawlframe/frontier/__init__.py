"""The frontier: all state of requests that is kept in Redis."""

from crawlframe.frontier.frontier import Frontier
from crawlframe.frontier.nodes import NodeInfo
from crawlframe.frontier.records import (
    Claim,
    Claimed,
    Completion,
    Counts,
    Fetched,
    TaskLimits,
)

__all__ = [
    "Claim",
    "Claimed",
    "Completion",
    "Counts",
    "Fetched",
    "Frontier",
    "NodeInfo",
    "TaskLimits",
]
