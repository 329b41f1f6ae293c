"""Simulated nodes: rows of real leases, and answers to real announcements."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.frontier.cluster.rollouts import Rollout, branch_of, concerns

SHORT = 12


@dataclass
class Fleet:
    """``tick`` lets each node take one step with its announcement: pulled, checking, live."""

    frontier: Frontier
    refusals: dict[str, str] = field(default_factory=dict)  # revision (12 digits) -> problem
    obstacles: dict[str, str] = field(default_factory=dict)  # node -> why it cannot pull
    mute: set[str] = field(default_factory=set)
    at_work: Callable[[str, str], None] = lambda node, version: None  # each turn of a live node
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    told: dict[str, list[Rollout]] = field(default_factory=lambda: defaultdict(list))
    _generation: int = 0

    def add(self, name: str, version: str, follows: str = "origin/main", **code: Any) -> None:
        """Adds a living node; a second one of the same name is its next life."""
        self._generation += 1
        state = {"version": version, "state": "live", "follows": follows} | code
        node = NodeInfo(
            generation=self._generation,
            node=name,
            machine="machine",
            place="place",
            pid=1,
            born=0.0,
            workers=1,
            lease_left=60.0,
            spiders=("shop",),
            code=CodeState(**state),
        )
        self.frontier.leases.renew(node.generation, 60)
        self._say(node)

    def change(self, name: str, **code: Any) -> None:
        node = self.nodes[name]
        changed = msgspec.structs.replace(node.code, **code)
        self._say(msgspec.structs.replace(node, code=changed))

    def leave(self, name: str) -> None:
        self._say(msgspec.structs.replace(self.nodes[name], leaving=True))

    def die(self, name: str) -> None:
        """Ends its lease and replays it."""
        self.frontier.leases.replay(self.nodes.pop(name).generation)

    def fall_silent(self, name: str) -> None:
        """Ends its lease."""
        self.frontier.leases.renew(self.nodes[name].generation, -1)

    def tick(self) -> None:
        for name, node in [*self.nodes.items()]:
            code = node.code
            if name in self.mute or not code.follows:
                continue
            branch = branch_of(code.follows)
            told = self.frontier.rollouts.of(name, branch)
            if told is not None and concerns(told, name, branch, code.rollout):
                self._answer(name, told)
            elif told is not None and not code.pull_problem and code.state != "refused":
                self._go_on(name, told.revision[:SHORT])
            if self.nodes[name].code.state == "live":
                self.at_work(name, self.nodes[name].code.version)

    def _answer(self, name: str, told: Rollout) -> None:
        self.told[name].append(told)
        problem = self.obstacles.get(name, "")
        code: dict[str, Any] = {"rollout": told.id, "pull_problem": problem}
        if not problem:
            code |= {"pulled": told.revision[:SHORT], "state": "live", "candidate": ""}
        self.change(name, **code)

    def _go_on(self, name: str, short: str) -> None:
        code = self.nodes[name].code
        if code.version == short:
            self.change(name, state="live", candidate="", problem="")
        elif code.candidate != short:
            self.change(name, state="checking", candidate=short)
        elif short in self.refusals:
            self.change(name, state="refused", problem=self.refusals[short])
        else:
            self.change(name, state="live", version=short, candidate="", problem="")

    def _say(self, node: NodeInfo) -> None:
        self.nodes[node.node] = node
        self.frontier.leases.announce(node)

    def run(self, stop: threading.Event) -> None:
        """Ticks until it is stopped."""
        while not stop.wait(0.02):
            self.tick()
