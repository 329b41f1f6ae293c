"""Decisions: an operator accepts or refuses a version that nodes do not take by themselves, because
it loses data on kept pages."""

from __future__ import annotations

from crawlframe.errors import ArgumentError
from crawlframe.frontier.cluster.decisions import Decision
from crawlservice.connections.frontier import frontier
from crawlservice.rollouts.status import lives


def accept(version: str, by: str) -> list[str]:
    """Returns the names of the nodes that ask about the version, or that an operator has had refuse
    it; they take it with their next beat, as do others that ask within a day. Raises ArgumentError
    if there are none, FrontierError and redis.RedisError."""
    return _decide(version, Decision(True, by))


def refuse(version: str, by: str) -> list[str]:
    """Returns the names of the nodes that ask about the version; they ask no more, nor do others
    that would within a day. Raises as ``accept``."""
    return _decide(version, Decision(False, by))


def _decide(version: str, decision: Decision) -> list[str]:
    asking: dict[str, list[str]] = {}
    for node in lives().values():
        if node.lease_left > 0 and (node.code.asks or (decision.accepted and node.code.refused_by)):
            asking.setdefault(node.code.candidate, []).append(node.node)
    if version not in asking:
        known = f"; nodes ask about {', '.join(sorted(asking))}" if asking else ""
        raise ArgumentError(f"no node asks whether to run version {version!r}{known}")
    frontier().decisions.give(version, decision)
    return asking[version]
