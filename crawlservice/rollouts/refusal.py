"""Refusal: nodes that follow a branch go back from a version whose quality failed to the one before
it."""

from __future__ import annotations

import logging

from django.conf import settings
from redis import RedisError

from crawlframe.code.checkout import Checkout
from crawlframe.errors import FrontierError
from crawlframe.frontier.rollouts import Rollout, branch_of
from crawlservice.connections.frontier import frontier
from crawlservice.models import Task
from crawlservice.rollouts.status import lives

log = logging.getLogger(__name__)


def take_back(task: Task, good: str) -> None:
    """Announces the version ``good`` of the last good run to the nodes that follow a branch and run
    another one. A version with changes that are in no commit cannot be announced; then nodes keep
    their code, and a warning says so. Raises FrontierError."""
    revision, _, changed = good.partition("+")
    if changed or not revision:
        log.warning("task %d: the nodes keep their code: %r is no commit", task.pk, good)
        return
    checkout = Checkout.around(settings.BASE_DIR)
    whole = (checkout.resolve(revision) if checkout else "") or revision
    try:
        nodes = [node for node in lives().values() if node.lease_left > 0 and node.code.follows]
        branches = {
            branch_of(node.code.follows)
            for node in nodes
            if node.code.version.partition("+")[0] != revision
        }
        for branch in sorted(branches):
            frontier().rollouts.announce(Rollout(whole, branch, back=True))
            log.warning("task %d: nodes of %s go back to %s", task.pk, branch, revision)
    except RedisError as error:
        raise FrontierError(f"Redis is unreachable: {error}") from None
    if not branches:
        log.warning("task %d: no node follows a branch; none goes back to %s", task.pk, revision)
