"""NodeStatus: the progress of each node with the revision that was announced to it; and the way
back of nodes that follow a branch, from a version whose quality failed to its predecessor."""

from __future__ import annotations

import logging
from collections import defaultdict
from enum import StrEnum
from typing import NamedTuple

from django.conf import settings
from redis import RedisError

from crawlframe.code.checkout import DIGITS, Checkout
from crawlframe.errors import FrontierError
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.cluster.rollouts import Rollout, branch_of
from crawlservice.connections.frontier import frontier
from crawlservice.models import Task

log = logging.getLogger(__name__)


class Phase(StrEnum):
    """The progress of a node."""

    ANNOUNCED = "announced"  # it has not answered yet
    NOT_PULLED = "not pulled"  # its checkout is as it was
    PULLED = "pulled"
    CHECKING = "checking"
    REFUSED = "refused"  # checked and refused; the previous code stays live
    LIVE = "live"
    OFFLINE = "offline"
    NOT_TOLD = "not told"
    NOT_FOLLOWING = "not following"

    @property
    def settled(self) -> bool:
        """Whether it is final."""
        return self in (Phase.NOT_PULLED, Phase.REFUSED, Phase.LIVE)


class NodeStatus(NamedTuple):
    """One node. ``why``: in one line, why it refused, or the module of its version that does not
    load."""

    node: str
    version: str
    phase: Phase
    why: str = ""

    @classmethod
    def of(cls, node: NodeInfo, told: Rollout | None) -> NodeStatus:
        """``told``: the last rollout announced to it; None if there was none."""
        phase, why = _phase(node, told)
        return cls(node.node, node.code.version, phase, why.partition("\n")[0])


def lives() -> dict[str, NodeInfo]:
    """The life that counts of each node, by the node's name: one that takes requests rather than
    one that leaves or is dead, and the latest of those. Raises redis.RedisError."""
    nodes = frontier().leases.nodes()
    nodes.sort(key=lambda node: (node.lease_left > 0, not node.leaving, node.generation))
    latest = {node.node: node for node in nodes}
    return dict(sorted(latest.items()))


def node_statuses() -> list[NodeStatus]:
    """Every node, with the revision last announced to it. Raises redis.RedisError."""
    rollouts = frontier().rollouts
    return [
        NodeStatus.of(node, rollouts.of(node.node, branch_of(node.code.follows)))
        for node in lives().values()
    ]


def _phase(node: NodeInfo, told: Rollout | None) -> tuple[Phase, str]:
    if node.lease_left <= 0:
        return Phase.OFFLINE, ""
    if not node.code.follows:
        return Phase.NOT_FOLLOWING, ""
    if told is None:
        return Phase.NOT_TOLD, ""
    short = told.revision[:DIGITS]
    if node.code.rollout < told.id:
        return Phase.ANNOUNCED, ""
    if node.code.pull_problem:
        return Phase.NOT_PULLED, node.code.pull_problem
    if node.code.version == short and node.code.state == "live":
        return Phase.LIVE, node.code.problem and f"does not load: {node.code.problem}"
    if node.code.candidate.partition("+")[0] == short:
        if node.code.state == "refused":
            return Phase.REFUSED, node.code.problem
        if node.code.state == "checking":
            return Phase.CHECKING, ""
    dirty = node.code.version.startswith(f"{short}+")
    return Phase.PULLED, f"its files differ from the revision: {node.code.version}" if dirty else ""


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
