"""The begin of a generation: a fresh number, and the replay of dead predecessors on this node."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection
from pathlib import Path

import psutil
from msgspec.structs import replace

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.node.services import Services

log = logging.getLogger(__name__)


def begin(
    settings: Settings, services: Services, frontier: Frontier, beside: Collection[int] = ()
) -> NodeInfo:
    """Starts a life of this node and replays at once what dead masters of this node, or any on this
    machine, left in progress. ``beside``: pids of masters of this node that it may live with.
    Answers who it is now.

    Raises ConfigError when another living node has the same name; one that is leaving does not
    count."""
    me = _myself(settings)
    for other in replay_dead(me, frontier):
        makes_room = other.place == me.place and (other.leaving or other.pid in beside)
        if other.node == me.node and not makes_room:
            raise ConfigError(
                f"node name {me.node!r} is in use by process {other.pid} on {other.machine}; "
                "stop it, or give this node another name with --node"
            )
    generation = services.begin_generation(me.node, me.machine, me.pid)
    frontier.leases.renew(generation, settings.lease)
    me = replace(me, generation=generation)
    frontier.leases.announce(me)
    return me


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
