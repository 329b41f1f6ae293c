"""The participants of a worker's commits, in their order."""

from __future__ import annotations

from redis import RedisError

from crawlframe.frontier import Frontier
from crawlframe.node.worker.commit.known_links import KnownLinks, SourceLinks
from crawlframe.node.worker.commit.page_notices import (
    BodyMemory,
    ClosedTasks,
    NearPageEnds,
    PageReservations,
    RenderFeedback,
)
from crawlframe.node.worker.commit.redirect_targets import RedirectTargets
from crawlframe.node.worker.commit.task_states import TaskStates
from crawlframe.run.ledger import Ledger
from crawlframe.run.link_filters import Sieve
from crawlframe.run.participant import Participants


def participants(frontier: Frontier, ledger: Ledger, sieve: Sieve) -> Participants:
    """States come before the follow-ups and targets of redirects that need them. Links that another
    task has made are dropped before links that this task knows."""
    return Participants(
        (
            TaskStates(frontier, ledger),
            SourceLinks(frontier, ledger),
            KnownLinks(frontier, sieve),
            BodyMemory(),
            ClosedTasks(frontier),
            RedirectTargets(frontier),
            RenderFeedback(frontier),
            NearPageEnds(frontier),
            PageReservations(frontier),
        ),
        documented=(RedisError,),
    )
