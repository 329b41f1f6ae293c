"""Generations: the lives of a master, each with a fresh number. One begins with the replay of dead
predecessors on this node."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psutil
from msgspec.structs import replace
from redis import RedisError

from crawlframe import faults
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError, EraChanged, Fenced, FrontierError
from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.ledger import LedgerAway
from crawlframe.node.services import Services

log = logging.getLogger(__name__)


class Life:
    """The generations of one master, one after the other. ``me``: who it is; ``alive``: its
    generation has begun and was not declared dead since."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self.me = _myself(settings)
        self.alive = False
        self._services = services
        self._concurrency = settings.concurrency
        self._waiting = False

    @property
    def generation(self) -> int:
        return self.me.generation

    def begin(self, frontier: Frontier, beside: Collection[int]) -> bool:
        """Begins the next one, if Redis and the database let it; answers whether it did. The first
        one waits for nothing but Redis being filled: raises what ``begin`` raises."""
        try:
            self.me = begin(self.me, self._services, frontier, beside)
        except (RedisError, LedgerAway, FrontierError, OSError) as error:
            if not self.generation and not isinstance(error, EraChanged):
                raise
            if not self._waiting:
                level = logging.WARNING if self.generation else logging.INFO
                log.log(level, "a generation of this node waits to begin: %s", error)
            self._waiting = True
            return False
        self.alive, self._waiting = True, False
        crew = f"{self.me.workers} workers of {self._concurrency} requests"
        log.info("node %s, generation %d: %s", self.me.node, self.generation, crew)
        return True

    def end(self) -> None:
        """It was declared dead."""
        self.alive = False

    def change(self, **fields: Any) -> None:
        """Fields of ``me`` are otherwise now."""
        self.me = replace(self.me, **fields)


def begin(
    me: NodeInfo, services: Services, frontier: Frontier, beside: Collection[int] = ()
) -> NodeInfo:
    """Starts a life of this node and replays at once what dead masters of this node, or any on this
    machine, left in progress. ``me``: who it was before. ``beside``: pids of
    masters of this node that it may live with. Answers who it is now.

    Raises ConfigError when another living node has the same name; one that is leaving does not
    count. Raises EraChanged when Redis must be filled again first."""
    frontier.eras.learn()
    if not frontier.eras.settled():
        raise EraChanged("Redis is being filled from the database")
    for other in replay_dead(me, frontier):
        makes_room = other.place == me.place and (other.leaving or other.pid in beside)
        if other.node == me.node and not makes_room:
            raise ConfigError(
                f"node name {me.node!r} is in use by process {other.pid} on {other.machine}; "
                "stop it, or give this node another name with --node"
            )
    faults.at("begin.before")
    me = replace(me, generation=_begin_fresh(me, services, frontier))
    frontier.leases.announce(me)
    faults.at("begin.after")
    return me


def _begin_fresh(me: NodeInfo, services: Services, frontier: Frontier) -> int:
    """The number of a life that nobody has lived. A database that lost rows gives some again."""
    while True:
        generation = services.begin_generation(me.node, me.machine, me.pid)
        try:
            if generation not in frontier.leases.left():
                frontier.leases.renew(generation, me.lease_left)
                return generation
        except EraChanged:
            raise
        except Fenced:
            pass
        log.warning("the database gave the number %d again; taking the next", generation)


def replay_dead(me: NodeInfo, frontier: Frontier) -> list[NodeInfo]:
    """Replays what dead masters of this node, or any on this machine, left in progress. Answers
    those that live."""
    living = []
    for other in frontier.leases.nodes():
        if other.generation == me.generation:
            continue
        if other.node == me.node or other.place == me.place:
            if _alive(other, me, frontier):
                living.append(other)
                continue
            moved = frontier.leases.replay(other.generation)
            log.info("replayed %d requests of generation %d", moved, other.generation)
    return living


def _myself(settings: Settings) -> NodeInfo:
    return NodeInfo(
        generation=0,
        node=settings.node,
        machine=socket.gethostname(),
        place=_place(),
        pid=os.getpid(),
        born=_born(os.getpid()),
        workers=settings.workers,
        lease_left=settings.lease,
        private=tuple(str(network) for network in settings.allow_private),
    )


def _born(pid: int) -> float:
    """When a process of this machine began, in seconds; on Linux since the machine did, for the
    time of day changes when the clock is put right. Raises psutil.NoSuchProcess."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return psutil.Process(pid).create_time()


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux: no containers with pid namespaces either
        return f"{socket.gethostname()}/{psutil.boot_time():.0f}"


def _alive(other: NodeInfo, me: NodeInfo, frontier: Frontier) -> bool:
    """Where its pid can be seen, the process itself tells; elsewhere its lease does, and a lease
    that is not renewed is waited for."""
    if other.place == me.place:
        if other.pid == me.pid:
            return False  # an earlier generation of this very process
        try:
            process = psutil.Process(other.pid)
            same = abs(_born(other.pid) - other.born) < 1
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
    left = other.lease_left
    if left > 0:
        log.info("waiting %.0f s for the lease of the node's life on %s", left, other.machine)
        time.sleep(left + 0.2)
    return frontier.leases.left().get(other.generation, -1.0) > 0
