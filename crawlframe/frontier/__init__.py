"""The frontier: all state of requests that is kept in Redis."""

from typing import TYPE_CHECKING, Any

from crawlframe.frontier.client.records import Claim as Claim
from crawlframe.frontier.client.records import Claimed as Claimed
from crawlframe.frontier.client.records import Completion as Completion
from crawlframe.frontier.client.records import Counts as Counts
from crawlframe.frontier.client.records import FreedSlot as FreedSlot
from crawlframe.frontier.client.records import GivenBack as GivenBack
from crawlframe.frontier.client.records import TaskLimits as TaskLimits
from crawlframe.frontier.cluster.nodes import NodeInfo as NodeInfo

if TYPE_CHECKING:
    from crawlframe.frontier.frontier import Frontier as Frontier


def __getattr__(name: str) -> Any:
    if name != "Frontier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crawlframe.frontier.frontier import Frontier  # with Redis, which supervisors do without

    return Frontier
