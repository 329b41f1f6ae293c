"""Nodes: each generation's public description in the cluster."""

from __future__ import annotations

import msgspec

DEATHS_WITHIN = FAILURES_WITHIN = 600.0  # seconds


class CodeState(msgspec.Struct, frozen=True):
    """The code that a node runs, and the result of its last reload."""

    version: str = ""  # of the live code; "" until some is loaded
    state: str = "loading"  # loading, checking, live or refused
    candidate: str = ""  # the version that is being checked or was refused
    problem: str = ""  # of the refused version, else of the live one: file:line: error, traceback
    changed_at: float = 0.0  # Unix time at which this state began
    seconds: float = 0.0  # last reload: from the last write to the first worker with the new code
    reloads: int = 0  # since the master started
    follows: str = ""  # "origin/main" for a node that is started with --follow
    follow_every: float = 0.0  # seconds between pulls of the tip of that branch; 0: only rollouts
    pulled: str = ""  # revision (12 digits) its checkout was last brought to by a pull
    pull_problem: str = ""  # why the last pull was refused
    rollout: int = 0  # id of the rollout that the last pull followed
    asks: bool = False  # whether the refused version goes live if an operator accepts it
    refused_by: str = ""  # name of the operator that has refused it


class NodeHealth(msgspec.Struct, frozen=True):
    """The health of a node, by its own account."""

    lease: float = 0.0  # seconds that each renewal extends it by; 0: unknown
    beat: float = 0.0  # seconds between two renewals
    missing: int = 0  # workers that have been missing for longer than replacing one takes
    deaths: int = 0  # workers that died or were killed in the last DEATHS_WITHIN seconds
    waits: str = ""  # why its results or its chores wait, such as an unreachable database
    disk: int = 0  # percent used of the disk with its var directory; 0: unknown
    restarts: int = 0  # times its steward died or was killed in the last DEATHS_WITHIN seconds
    failures: int = 0  # of chores, or of rows in them, in the last FAILURES_WITHIN seconds


class NodeInfo(msgspec.Struct, frozen=True):
    """A generation as the cluster sees it. Nodes of other releases may send other fields."""

    generation: int
    node: str
    machine: str  # host name, for people
    place: str  # boot and process namespace, within which the pid is valid
    pid: int
    born: float  # start time of the process, to distinguish it from a later one with the same pid
    workers: int
    lease_left: float  # seconds; negative when expired
    spiders: tuple[str, ...] = ()  # the spiders it has loaded; empty while it loads
    private: tuple[str, ...] = ()  # private networks that it may crawl
    code: CodeState = CodeState()
    leaving: bool = False  # it claims nothing new and will end
    health: NodeHealth = msgspec.field(default=NodeHealth(), name="fitness")
    affinity: str = ""  # CRAWLFRAME_AFFINITY; "" of older releases, which prefer no hosts
