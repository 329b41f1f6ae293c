"""Generations: the lives of a master, each with a new number. A life first replays dead
predecessors on this node."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from msgspec.structs import replace
from redis import RedisError

from crawlframe.base import faults, processes
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError, EraChanged, Fenced, FrontierError
from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.frontier.cluster.nodes import CodeState, NodeHealth
from crawlframe.node.messages import CodeLoaded
from crawlframe.node.services import Services
from crawlframe.run.ledger import LedgerAway

log = logging.getLogger(__name__)


class Life:
    """The successive generations of one master. ``me``: its published description; ``alive``: its
    generation has begun and was not declared dead since."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self.me = _myself(settings)
        self.alive = False
        self._services = services
        self._concurrency = settings.concurrency
        self._waiting = False
        self._published: CodeLoaded | None = None  # the code whose spiders were published

    @property
    def generation(self) -> int:
        return self.me.generation

    def begin(self, frontier: Frontier, beside: Collection[int]) -> bool:
        """Starts the next generation, if Redis and the database permit; returns whether it did. The
        first generation waits only while Redis is being filled: otherwise it raises as ``begin``
        does."""
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
        self.alive, self._waiting, self._published = True, False, None
        pool = f"{self.me.workers} workers of {self._concurrency} requests"
        log.info("node %s, generation %d: %s", self.me.node, self.generation, pool)
        return True

    def end(self) -> None:
        """Records that the generation was declared dead."""
        self.alive = False

    def leave(self) -> None:
        """Records that the node was asked to stop, so that it is not reported as missing."""
        if self.generation:
            try:
                self._services.end_generation(self.generation)
            except LedgerAway as error:
                log.warning("this node will be shown as offline, it could not sign off: %s", error)

    def renew(self, frontier: Frontier, seconds: float) -> bool:
        """Extends the lease of this generation. Returns whether it must be announced again, because
        Redis was emptied, has older data, or could not read the announcement. Raises Fenced."""
        forgotten = not frontier.leases.knows(self.generation)
        frontier.leases.renew(self.generation, seconds)
        if forgotten:
            self._published = None
        return forgotten

    def replay(self, frontier: Frontier) -> None:
        """Returns the requests of this generation to the queue, because it is over."""
        _replay(self.generation, self._services, frontier)

    def replay_dead(self, frontier: Frontier) -> None:
        """Replays requests of dead masters of this node, or of any node on this machine."""
        replay_dead(self.me, self._services, frontier)

    def publish(
        self, frontier: Frontier, code: CodeState, loaded: CodeLoaded | None, health: NodeHealth
    ) -> None:
        """Publishes its description and, if they changed, the spiders that it has loaded."""
        infos = loaded.infos if loaded else []
        self.change(spiders=tuple(info.name for info in infos), code=code, health=health)
        frontier.leases.announce(self.me)
        if loaded is not self._published:
            frontier.spiders.publish(infos)
            self._published = loaded

    def change(self, **fields: Any) -> None:
        """Changes fields of ``me``."""
        self.me = replace(self.me, **fields)


def begin(
    me: NodeInfo, services: Services, frontier: Frontier, beside: Collection[int] = ()
) -> NodeInfo:
    """Starts a life of this node after replaying the requests in progress of dead masters of this
    node, or of any node on this machine. ``me``: its last description. ``beside``: pids of masters
    of this node that may run at the same time. Returns the new description.

    Raises ConfigError when another living node has the same name, unless the other is leaving;
    FrontierError when Redis belongs to another cluster; EraChanged when Redis must be filled again
    first."""
    services.check_installation(frontier)
    frontier.eras.learn()
    if frontier.eras.settled() and (missing := services.missing(frontier)):
        log.warning("Redis is older than the database: %s", missing)
        frontier.eras.doubt()
    if not frontier.eras.settled():
        raise EraChanged("Redis is being filled from the database")
    for other in replay_dead(me, services, frontier):
        makes_room = other.place == me.place and (other.leaving or other.pid in beside)
        if other.node == me.node and not makes_room:
            raise ConfigError(
                f"node name {me.node!r} is in use by process {other.pid} on {other.machine}; "
                "stop it, or give this node another name with --node"
            )
    faults.at("begin.before")
    me = _begin_fresh(me, services, frontier, beside)
    faults.at("begin.after")
    return me


def _begin_fresh(
    me: NodeInfo, services: Services, frontier: Frontier, beside: Collection[int]
) -> NodeInfo:
    """Starts a life with an unused number: a database that lost rows issues numbers again. A life
    that Redis does not accept has not started, and is not reported as missing."""
    while True:
        number = services.begin_generation(me.node, me.machine, me.pid, beside)
        fresh = replace(me, generation=number)
        try:
            if _enter(fresh, frontier):
                return fresh
        except (RedisError, FrontierError, OSError):
            with suppress(LedgerAway):
                services.end_generation(fresh.generation)
            raise
        log.warning("the database gave the number %d again; taking the next", fresh.generation)


def _enter(me: NodeInfo, frontier: Frontier) -> bool:
    """Gives a life its lease and announces it. Returns False if its number was used before."""
    try:
        if me.generation in frontier.leases.left():
            return False
        frontier.leases.renew(me.generation, me.lease_left)
    except EraChanged:
        raise
    except Fenced:
        return False
    frontier.leases.announce(me)
    return True


def replay_dead(me: NodeInfo, services: Services, frontier: Frontier) -> list[NodeInfo]:
    """Replays requests in progress of dead masters of this node, or of any node on this machine.
    Returns the nodes that are alive."""
    living = []
    for other in frontier.leases.nodes():
        if other.generation == me.generation:
            continue
        if other.node == me.node or other.place == me.place:
            if _alive(other, me, frontier):
                living.append(other)
                continue
            if other.node != me.node:  # this node starts a new life itself
                held = frontier.leases.held([other.generation])[other.generation]
                with suppress(LedgerAway):  # a steward will find out
                    services.lose_generation(other.generation, held)
            _replay(other.generation, services, frontier)
    return living


def _replay(generation: int, services: Services, frontier: Frontier) -> None:
    try:
        moved = services.replay(frontier, generation)
    except LedgerAway as error:  # a steward will do it when its lease expires
        log.warning("generation %d is not replayed yet: %s", generation, error)
    else:
        log.info("replayed %d requests of generation %d", moved, generation)


def _myself(settings: Settings) -> NodeInfo:
    return NodeInfo(
        generation=0,
        node=settings.node,
        machine=socket.gethostname(),
        place=processes.place(),
        pid=os.getpid(),
        born=processes.born(os.getpid()),
        workers=settings.workers,
        lease_left=settings.lease,
        private=tuple(str(network) for network in settings.allow_private),
        affinity=settings.affinity,
    )


def _alive(other: NodeInfo, me: NodeInfo, frontier: Frontier) -> bool:
    """Whether a master is alive. If its pid is visible here, the process itself decides; otherwise
    its lease does, and a lease that is not renewed is waited for."""
    if other.place == me.place:
        if other.pid == me.pid:
            return False  # an earlier generation of this process
        return processes.runs(other.pid, other.born)
    left = other.lease_left
    if left > 0:
        log.info("waiting %.0f s for the lease of the node's life on %s", left, other.machine)
        time.sleep(left + 0.2)
    return frontier.leases.left().get(other.generation, -1.0) > 0
