"""Acceptance: an operator lets a version go live that nodes have refused because it loses data on
kept pages."""

from __future__ import annotations

from crawlframe.errors import ArgumentError
from crawlservice.connections.frontier import frontier
from crawlservice.rollouts.status import lives


def accept(version: str) -> list[str]:
    """Returns the names of the nodes that refused the version; they take it with their next beat,
    as do others that refuse it within a day. Raises ArgumentError if no node asks, FrontierError
    and redis.RedisError."""
    asking: dict[str, list[str]] = {}
    for node in lives().values():
        if node.lease_left > 0 and node.code.asks:
            asking.setdefault(node.code.candidate, []).append(node.node)
    if version not in asking:
        known = f"; nodes ask about {', '.join(sorted(asking))}" if asking else ""
        raise ArgumentError(f"no node asks whether to run version {version!r}{known}")
    frontier().acceptances.give(version)
    return asking[version]
