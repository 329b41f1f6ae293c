"""Nodes: what each generation announces of itself to the cluster."""

from __future__ import annotations

import msgspec

DEATHS_WITHIN = 600.0  # seconds


class CodeState(msgspec.Struct, frozen=True):
    """Which code a node runs, and how its last reload went."""

    version: str = ""  # of the code that lives; "" until some is loaded
    state: str = "loading"  # loading, checking, live or refused
    candidate: str = ""  # the version that is being checked, or was refused
    problem: str = ""  # of the refused version, else of the live one: file:line: error, traceback
    changed_at: float = 0.0  # Unix time at which this state began
    seconds: float = 0.0  # last reload: from the last write to the first worker with the new code
    reloads: int = 0  # since the master started
    follows: str = ""  # "origin/main" for a node that pulls by itself
    pulled: str = ""  # revision (12 digits) its checkout was last brought to by a pull
    pull_problem: str = ""  # why the last pull was refused
    rollout: int = 0  # id of the announcement that the last pull answered


class NodeHealth(msgspec.Struct, frozen=True):
    """How well a node does, as it sees it itself."""

    lease: float = 0.0  # seconds that each renewal is for; 0: it did not tell
    beat: float = 0.0  # seconds between two renewals
    missing: int = 0  # workers that it should have, and lacks for longer than replacing one takes
    deaths: int = 0  # workers that died or were killed in the last DEATHS_WITHIN seconds
    waits: str = ""  # for what its results or its chores wait, such as a database that is away


class NodeInfo(msgspec.Struct, frozen=True):
    """One generation as the cluster sees it. Nodes of other releases may send more or less."""

    generation: int
    node: str
    machine: str  # host name, to be read
    place: str  # boot and process namespace: where the pid means something
    pid: int
    born: float  # start time of the process, to tell it from a later one with the same pid
    workers: int
    lease_left: float  # seconds, negative when expired
    spiders: tuple[str, ...] = ()  # what it loaded; empty while it loads
    private: tuple[str, ...] = ()  # private networks that it may crawl
    code: CodeState = CodeState()
    leaving: bool = False  # it takes nothing new and ends
    health: NodeHealth = msgspec.field(default=NodeHealth(), name="fitness")
