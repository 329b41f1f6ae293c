"""Refusal: nodes that follow a branch go back from a version whose quality failed to its
predecessor."""

from __future__ import annotations

import logging
from collections import defaultdict

from django.conf import settings
from redis import RedisError

from crawlframe.code.checkout import Checkout
from crawlframe.errors import FrontierError
from crawlframe.frontier.cluster.rollouts import Rollout, branch_of
from crawlservice.connections.frontier import frontier
from crawlservice.models import Task
from crawlservice.rollouts.status import lives

log = logging.getLogger(__name__)


def take_back(task: Task, bad: str, good: str) -> None:
    """Announces the version ``good`` of the last good run to the nodes that follow a branch and run
    the version ``bad``; to their whole branch, unless other nodes of it run a third version, such
    as one that fixes it. Versions that differ by changes that are in no commit cannot be
    announced; then nodes keep their code, and a warning says so. Raises FrontierError."""
    revision, _, changed = good.partition("+")
    if changed or revision in ("", bad.partition("+")[0]):
        log.warning("task %d: the nodes keep their code: %r is no commit", task.pk, good)
        return
    checkout = Checkout.around(settings.BASE_DIR)
    whole = (checkout.resolve(revision) if checkout else "") or revision
    announced = False
    try:
        for branch, nodes in sorted(_following().items()):
            names = [name for name, version in nodes.items() if version == bad]
            if not names:
                continue
            others = {version.partition("+")[0] for version in nodes.values() if version != bad}
            named = tuple(names) if others - {revision} else ()
            frontier().rollouts.announce(Rollout(whole, branch, named, back=True))
            announced = True
            told = ", ".join(names)
            log.warning("task %d: %s of %s go back to %s", task.pk, told, branch, revision)
    except RedisError as error:
        raise FrontierError(f"Redis is unreachable: {error}") from None
    if not announced:
        log.warning(
            "task %d: no node that follows a branch runs %s; none goes back to %s",
            task.pk, bad, revision,
        )  # fmt: skip


def _following() -> dict[str, dict[str, str]]:
    """The living nodes that follow a branch, and the version of each. Raises redis.RedisError."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for node in lives().values():
        if node.lease_left > 0 and node.code.follows:
            found[branch_of(node.code.follows)][node.node] = node.code.version
    return found
