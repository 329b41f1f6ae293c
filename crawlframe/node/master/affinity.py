"""Affinity of a node: reports its load to the others; the oldest node keeps the table that assigns
the hosts of each slot to a node."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable

from crawlframe.frontier import Claimed, Frontier, NodeInfo
from crawlframe.frontier.cluster.affinity import (
    OFF,
    Affinity,
    NodeLoad,
    Table,
    assign,
    rebalance,
    slot_of,
)

log = logging.getLogger(__name__)

KEPT_SHARE = 0.8  # part of the count that is kept at a renewal: half of it is left after 3
MAX_SLOTS = 128  # slots whose load is reported
MIN_LOAD = 0.1  # requests below which a slot is not counted any more


class NodeAffinity:
    """The affinity of one master. ``mode``: off, host or domain."""

    def __init__(self, mode: str = OFF) -> None:
        self.mode = mode
        self._warned = ""
        self.start_over()

    @property
    def on(self) -> bool:
        """Whether this node takes part."""
        return self.mode != OFF

    def start_over(self) -> None:
        """Starts a generation, which has claimed nothing."""
        self._slots: dict[int, float] = {}
        self._requests = self._weight = 0.0

    def note(self, requests: Iterable[Claimed]) -> None:
        """Counts requests that were claimed."""
        if self.on:
            for request in requests:
                slot = slot_of(request.host, self.mode)
                self._slots[slot] = self._slots.get(slot, 0.0) + 1
                self._requests += 1

    def tick(self, frontier: Frontier, me: NodeInfo) -> None:
        """Reports the load with each renewal of the lease, and if this is the oldest node that
        takes part, writes the table if that has changed. Raises redis.RedisError."""
        if not self.on:
            return
        affinity = Affinity(frontier.store)
        affinity.report(me.generation, self._load())
        taking_part = [
            node
            for node in frontier.leases.nodes()
            if node.lease_left > 0 and not node.leaving and node.affinity not in ("", OFF)
        ]
        if not taking_part:
            return
        oldest = taking_part[0]
        if oldest.affinity != self.mode and self._warned != oldest.affinity:
            log.warning(
                "CRAWLFRAME_AFFINITY is %s here and %s on node %s; this node prefers no hosts "
                "until both are the same",
                self.mode, oldest.affinity, oldest.node,
            )  # fmt: skip
        self._warned = oldest.affinity if oldest.affinity != self.mode else ""
        if oldest.generation == me.generation:
            members = {node.node: node for node in taking_part if node.affinity == self.mode}
            _keep(affinity, self.mode, members)

    def _load(self) -> NodeLoad:
        self._weight = 1 + KEPT_SHARE * self._weight
        top = heapq.nlargest(MAX_SLOTS, self._slots.items(), key=lambda item: item[1])
        load = NodeLoad(self._requests / self._weight, {slot: n / self._weight for slot, n in top})
        self._requests *= KEPT_SHARE
        self._slots = {slot: n * KEPT_SHARE for slot, n in self._slots.items() if n > MIN_LOAD}
        return load


def _keep(affinity: Affinity, mode: str, members: dict[str, NodeInfo]) -> None:
    before = affinity.read()
    slots = [before.nodes[place] for place in before.slots] if before else []
    if before is None or {*before.nodes} != {*members}:
        slots = assign(slots, members)
    reported = affinity.loads(node.generation for node in members.values())
    if all(node.generation in reported for node in members.values()):
        loads = {name: reported[node.generation] for name, node in members.items()}
        slots = rebalance(slots, loads)
    names = tuple(sorted(members))
    places = {name: place for place, name in enumerate(names)}
    generations = tuple(members[name].generation for name in names)
    table = Table(mode, generations, names, tuple(places[node] for node in slots))
    if table != before:
        affinity.write(table)
