"""NodeStatus: the progress of each node with the revision that was announced to it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from crawlframe.code.checkout import DIGITS
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.frontier.cluster.rollouts import Rollout, branch_of
from crawlservice.connections.frontier import frontier


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
    return _progress(node.code, told)


def _progress(code: CodeState, told: Rollout) -> tuple[Phase, str]:
    short = told.revision[:DIGITS]
    if code.rollout < told.id:
        return Phase.ANNOUNCED, ""
    if code.pull_problem:
        return Phase.NOT_PULLED, code.pull_problem
    if code.version == short and code.state == "live":
        return Phase.LIVE, code.problem and f"does not load: {code.problem}"
    if code.candidate.partition("+")[0] == short:
        if code.state == "refused":
            return Phase.REFUSED, code.problem
        if code.state == "checking":
            return Phase.CHECKING, ""
    dirty = code.version.startswith(f"{short}+")
    return Phase.PULLED, f"its files differ from the revision: {code.version}" if dirty else ""
