"""Leases: which nodes are alive, and what becomes of the requests of dead ones."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from crawlframe.frontier.partitions import Partitions
from crawlframe.frontier.records import NodeInfo


class Leases(Partitions):
    """Generations, their leases and fences. Raises Fenced and redis.RedisError as Frontier does."""

    def announce(self, node: NodeInfo) -> None:
        """Tells the cluster who a generation is."""
        self.redis.hset(self.keys[0]("NODES"), str(node.generation), msgspec.json.encode(node))

    def renew(self, generation: int, seconds: float) -> None:
        """This generation lives for so long from now. Raises Fenced."""
        for partition in range(self.partitions):
            self.run("lease", partition, generation, int(seconds * 1000))

    def left(self) -> dict[int, float]:
        """Generations that were not replayed, with the seconds left (least of all partitions)."""
        left: dict[int, float] = {}
        for partition in range(self.partitions):
            answer = self.run("leases", partition)
            for generation, ms in zip(answer[::2], answer[1::2], strict=True):
                left[int(generation)] = min(ms / 1000, left.get(int(generation), ms / 1000))
        return left

    def knows(self, generation: int) -> bool:
        """Whether a generation has a lease and has announced itself."""
        announced = self.redis.hexists(self.keys[0]("NODES"), str(generation))
        return bool(announced) and generation in self.left()

    def nodes(self) -> list[NodeInfo]:
        """Every generation that announced itself and was not replayed, oldest first."""
        left = self.left()
        rows = self.redis.hgetall(self.keys[0]("NODES")).values()
        nodes = [msgspec.json.decode(row, type=NodeInfo) for row in rows]
        return [
            replace(node, lease_left=left.get(node.generation, -1.0))
            for node in sorted(nodes, key=lambda node: node.generation)
        ]

    def held(self, generations: Collection[int]) -> dict[int, int]:
        """How many requests each generation has in progress."""
        held = dict.fromkeys(generations, 0)
        for keys in self.keys:
            pipe = self.redis.pipeline(transaction=False)
            for generation in held:
                pipe.scard(keys("INPROGRESS", generation))
            for generation, number in zip(held, pipe.execute(), strict=True):
                held[generation] += number
        return held

    def in_progress(self) -> list[bytes]:
        """The rids that generations hold that were not replayed."""
        generations = self.left()
        return [
            rid
            for keys in self.keys
            for generation in generations
            for rid in self.redis.sscan_iter(keys("INPROGRESS", generation), count=1000)
        ]

    def strays(self, generation: int, held: Collection[bytes]) -> dict[bytes, str]:
        """rid -> host of what a generation has in progress beside the rids in ``held``."""
        hosts = {}
        for keys in self.keys:
            rids = [
                rid
                for rid in self.redis.smembers(keys("INPROGRESS", generation))
                if rid not in held
            ]
            owners = self.redis.hmget(keys("OWN"), rids) if rids else []
            for rid, own in zip(rids, owners, strict=True):
                if own is not None:
                    hosts[rid] = own.decode().split(":", 2)[2]
        return hosts

    def replay(self, generation: int) -> int:
        """Declares a generation dead and gives its requests back; answers how many."""
        # First: whoever dies in between leaves the lease behind, and it will be replayed again.
        self.redis.hdel(self.keys[0]("NODES"), str(generation))
        moved = 0
        for partition in range(self.partitions):
            left = 1
            while left:
                some, left = self.run("replay", partition, generation)
                moved += some
        return moved
