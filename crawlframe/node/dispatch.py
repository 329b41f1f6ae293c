"""Dispatch: which worker gets which claimed request."""

from __future__ import annotations

import zlib

from crawlframe.frontier import Claimed
from crawlframe.node.child import Child

AFFINITY_SLACK = 4  # requests more than the least loaded worker that a host's own worker may hold


def share_out(requests: list[Claimed], workers: list[Child]) -> list[tuple[Child, list[Claimed]]]:
    """Gives each request to a worker, as far as it can to one with credits, and books it there.

    A batch claimed again after a lost answer may be larger than the credits of today."""
    parcels: dict[int, tuple[Child, list[Claimed]]] = {}
    for request in requests:
        child = _choose(workers, request.host)
        child.hold(request)
        child.credits -= 1
        parcels.setdefault(child.pid, (child, []))[1].append(request)
    return [*parcels.values()]


def _choose(workers: list[Child], host: str) -> Child:
    """The worker that has the host's warm connections, unless another has clearly less to do."""
    taking = [child for child in workers if child.credits > 0] or workers
    idlest = min(taking, key=lambda child: len(child.held))
    own = workers[zlib.crc32(host.encode()) % len(workers)]
    if own.credits > 0 and len(own.held) <= len(idlest.held) + AFFINITY_SLACK:
        return own
    return idlest
