"""Leases: which nodes are alive, and how the requests of dead ones are recovered."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from ipaddress import ip_network

import msgspec
from msgspec.structs import replace

from crawlframe.frontier.client.records import GivenBack
from crawlframe.frontier.client.rows import StorePart
from crawlframe.frontier.cluster.nodes import NodeInfo

_CLAIM = re.compile(r"\d+[.+](\d+)")  # in the holder of a request in progress


class Leases(StorePart):
    """Generations, their leases and fences. Raises Fenced and redis.RedisError as Frontier does."""

    def announce(self, node: NodeInfo) -> None:
        """Publishes the node of a generation to the cluster."""
        self._store.redis.hset(
            self._store.keys[0]("NODES"), str(node.generation), msgspec.json.encode(node)
        )

    def renew(self, generation: int, seconds: float) -> None:
        """Extends the lease of this generation to ``seconds`` from now. Raises Fenced."""
        self._store.run_everywhere("lease", generation, int(seconds * 1000))

    def left(self) -> dict[int, float]:
        """Generations that were not replayed, with the seconds left (the least of all
        partitions)."""
        left: dict[int, float] = {}
        for partition, answer in enumerate(self._store.run_everywhere("leases")):
            for place, generation in self._rows.read_members("GENERATIONS", answer[::2], partition):
                seconds = answer[2 * place + 1] / 1000
                left[generation] = min(seconds, left.get(generation, seconds))
        return left

    def knows(self, generation: int) -> bool:
        """Whether a generation has a lease and has announced itself."""
        announced = self._store.redis.hexists(self._store.keys[0]("NODES"), str(generation))
        return bool(announced) and generation in self.left()

    def nodes(self) -> list[NodeInfo]:
        """All generations that announced themselves and were not replayed, oldest first."""
        left = self.left()
        nodes = self._rows.read_hash("NODES", _node)
        return [
            replace(node, lease_left=left.get(node.generation, -1.0))
            for node in sorted(nodes, key=lambda node: node.generation)
        ]

    def held(self, generations: Collection[int]) -> dict[int, int]:
        """The number of requests that each generation has in progress."""
        held = dict.fromkeys(generations, 0)
        for keys in self._store.keys:
            pipe = self._store.redis.pipeline(transaction=False)
            for generation in held:
                pipe.scard(keys("INPROGRESS", generation))
            for generation, number in zip(held, pipe.execute(), strict=True):
                held[generation] += number
        return held

    def in_progress(self) -> dict[bytes, str]:
        """rid -> host of all requests held by generations that were not replayed."""
        held: dict[bytes, str] = {}
        for generation in self.left():
            held |= self.hosts(generation)
        return held

    def hosts(self, generation: int) -> dict[bytes, str]:
        """rid -> host of the requests a generation has in progress."""
        return {one.rid: one.host for one in self.strays(generation, ())}

    def strays(self, generation: int, held: Collection[bytes]) -> list[GivenBack]:
        """The requests a generation has in progress, other than those in ``held``, as they can be
        given back."""
        strays = []
        for partition, keys in enumerate(self._store.keys):
            rids = [
                rid
                for rid in self._store.redis.smembers(keys("INPROGRESS", generation))
                if rid not in held
            ]
            owners = self._store.redis.hmget(keys("OWN"), rids) if rids else []
            for rid, own in zip(rids, owners, strict=True):
                one = own and self._rows.read_row("OWN", rid, own, _stray, None, "", partition)
                if one:
                    strays.append(one)
        return strays

    def replay(self, generation: int) -> int:
        """Declares a generation dead and releases its requests; returns how many."""
        # First: if this process dies half way, the lease remains, and it will be replayed again.
        self._store.redis.hdel(self._store.keys[0]("NODES"), str(generation))
        moved = 0
        for partition in range(self._store.partitions):
            left = 1
            while left:
                some, left = self._store.run("replay", partition, generation)
                moved += some
        return moved


def _node(generation: bytes, row: bytes) -> NodeInfo:
    info = msgspec.json.decode(row, type=NodeInfo)
    if int(generation) != info.generation:
        raise ValueError(f"it is of generation {info.generation}")
    datetime.fromtimestamp(info.code.changed_at, UTC)
    for network in info.private:
        ip_network(network)
    return info


def _stray(rid: bytes, own: bytes) -> GivenBack:
    holder, _, lane = own.decode().partition("|")
    _, _, host = lane.split(":", 2)
    claim = _CLAIM.match(holder)  # none if an older version has written it
    return GivenBack(rid, host, int(claim[1]) if claim else 0)
