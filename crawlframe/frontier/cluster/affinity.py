"""Affinity: which node a host belongs to, so that its connections, addresses and robots.txt stay
with one node. It is a preference: others take a host that its node leaves waiting.

A slot is a part of all hosts, by a hash of the host's name or domain. The table says which node
each slot belongs to. The oldest node that takes part keeps it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgpack
from redis import ResponseError

from crawlframe.base.public_suffixes import registered_domain, suffix_rules
from crawlframe.base.urls import without_port
from crawlframe.frontier.client.batches import chunks
from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.rows import StorePart
from crawlframe.proxies.place import host_in

OFF, DOMAIN = "off", "domain"  # of conf.AFFINITIES
SLOTS = 4096  # claim/affinity.lua takes 12 bits of the hash
TOLERANCE = 0.05  # part of the mean load that a node may be above it
MOVE_RATIO = 1.3  # minimum ratio of two nodes' loads of a slot, or it would move back and forth
MOST_MOVED = 64  # slots that one rebalancing moves for load


class NodeLoad(NamedTuple):
    """A node's recent claims: requests per renewal of its lease, of all slots and of the
    busiest."""

    requests: float
    slots: Mapping[int, float]


class Table(NamedTuple):
    """``slots``: of each slot, the place of its node in ``nodes``."""

    mode: str
    generations: tuple[int, ...]
    nodes: tuple[str, ...]
    slots: tuple[int, ...]

    def share_of(self, generation: int) -> float:
        """The part of all hosts that belongs to a generation, 0 to 1."""
        if generation not in self.generations:
            return 0.0
        return self.slots.count(self.generations.index(generation)) / SLOTS


def name_of(place: str, mode: str) -> str:
    """The hash key of a host, or of a place."""
    host = host_in(place)
    if mode != DOMAIN:
        return host
    host = without_port(host)
    return host if host.endswith("]") else registered_domain(host.removesuffix("."))


def slot_of(place: str, mode: str) -> int:
    """The slot of a host, as claim/affinity.lua computes it."""
    return int(hashlib.sha1(name_of(place, mode).encode()).hexdigest()[:3], 16)


def _weight(slot: int, node: str) -> bytes:
    """How much a slot prefers a node (rendezvous hashing)."""
    return hashlib.sha1(f"{slot}:{node}".encode()).digest()


def assign(before: Sequence[str], nodes: Collection[str]) -> list[str]:
    """The node of each slot, by the largest weight. ``before``: the nodes so far, or nothing. So
    only the slots of a node that is gone move, and the share of a new node. ``nodes`` is not
    empty."""
    new = {*nodes} - {*before}
    slots = []
    for slot, node in enumerate(before or [""] * SLOTS):
        able = {node} | new if node in nodes else nodes
        slots.append(max(able, key=partial(_weight, slot)))
    return slots


def rebalance(slots: Sequence[str], loads: Mapping[str, NodeLoad]) -> list[str]:
    """Moves the busiest slots of nodes whose load is above the mean to the nodes with the least.
    The load of a node is its recent claims, and again as much as its slots got: so a host that is
    larger than all others together belongs to one node after the other."""
    slots = list(slots)
    rates: dict[int, float] = {}
    for load in loads.values():
        for slot, rate in load.slots.items():
            rates[slot] = rates.get(slot, 0.0) + rate
    totals = {node: load.requests for node, load in loads.items()}
    known, claimed = sum(rates.values()), sum(totals.values())
    owned: dict[str, list[int]] = {node: [] for node in totals}
    for slot, rate in rates.items():
        if (node := slots[slot]) in totals:
            totals[node] += rate
            owned[node].append(slot)
    for node in totals:  # requests of slots that no report names
        totals[node] += max(0.0, claimed - known) * slots.count(node) / SLOTS
    mean = sum(totals.values()) / max(1, len(totals))
    for _ in range(MOST_MOVED):
        if not totals:
            break
        most, least = max(totals, key=totals.__getitem__), min(totals, key=totals.__getitem__)
        if totals[most] <= (1 + TOLERANCE) * mean:
            break
        gap = totals[most] - totals[least]
        fitting = [slot for slot in owned[most] if 0 < MOVE_RATIO * rates[slot] <= gap]
        if not fitting:
            break
        slot = min(fitting, key=lambda one: abs(rates[one] - gap / 2))
        owned[most].remove(slot)
        owned[least].append(slot)
        slots[slot] = least
        totals[most] -= rates[slot]
        totals[least] += rates[slot]
    return slots


class Affinity(StorePart):
    """The table and the loads in Redis. Raises redis.RedisError."""

    def report(self, generation: int, load: NodeLoad) -> None:
        """Reports the recent claims of a generation to the others."""
        key, field = self._store.keys[0]("LOADS"), str(generation)
        row = pack([load.requests, [word for pair in load.slots.items() for word in pair]])
        self._repair(key, lambda: self._store.redis.hset(key, field, row))

    def loads(self, generations: Iterable[int]) -> dict[int, NodeLoad]:
        """The reports of these generations. Reports of others are deleted."""
        wanted = {str(generation).encode() for generation in generations}
        key = self._store.keys[0]("LOADS")
        found: dict[int, NodeLoad] = {}
        for field, row in self._store.redis.hgetall(key).items():
            load = _load(row)
            if load is None or field not in wanted:
                self._store.redis.hdel(key, field)
            else:
                found[int(field)] = load
        return found

    def read(self) -> Table | None:
        """The table, as the first partition has it; None when there is none that can be read."""
        try:
            return _table(self._store.redis.get(self._store.keys[0]("AFFINITY")) or b"")
        except ResponseError:  # of another type
            return None

    def write(self, table: Table) -> None:
        """Replaces the table."""
        slots = b"".join(place.to_bytes(2, "big") for place in table.slots)
        generations = [str(generation) for generation in table.generations]
        row = pack([table.mode, generations, slots, list(table.nodes)])
        rules = suffix_rules() if table.mode == DOMAIN else {}
        for keys in self._store.keys:
            if rules:
                self._write_rules(keys("DOMAINS"), rules)
            self._store.redis.set(keys("AFFINITY"), row)

    def _write_rules(self, key: str, rules: Mapping[str, int]) -> None:
        """Unless they are there: all, for a node may have died while it wrote them."""
        if self._repair(key, lambda: self._store.redis.hlen(key)) != len(rules):
            self._store.redis.delete(key)
            for some in chunks([*rules.items()]):
                self._store.redis.hset(key, mapping=dict(some))

    def _repair(self, key: str, call: Callable[[], int]) -> int:
        """Calls it, and once more without the key if that has become of another type."""
        try:
            return call()
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            self._store.redis.delete(key)
            return call()


def _load(row: bytes) -> NodeLoad | None:
    try:
        requests, flat = msgpack.unpackb(row)
        rates = {int(slot): float(rate) for slot, rate in zip(flat[::2], flat[1::2], strict=True)}
        if not all(0 <= slot < SLOTS for slot in rates):
            return None
        if not all(0 <= rate < math.inf for rate in (requests, *rates.values())):
            return None
        return NodeLoad(float(requests), rates)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return None


def _table(row: bytes) -> Table | None:
    try:
        mode, generations, text, nodes = msgpack.unpackb(row, raw=True)
        slots = tuple(int.from_bytes(text[at : at + 2], "big") for at in range(0, len(text), 2))
        names = tuple(node.decode() for node in nodes)
        if len(slots) != SLOTS or max(slots) >= len(names) or len(names) != len(generations):
            return None
        return Table(mode.decode(), tuple(map(int, generations)), names, slots)
    except (ValueError, TypeError, AttributeError, OverflowError, msgpack.UnpackException):
        return None
