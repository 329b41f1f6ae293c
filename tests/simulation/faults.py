"""Faults: a schedule drawn from the seed. Each fault can be left out on its own, so a schedule that
fails can be made shorter."""

from __future__ import annotations

import random
from typing import NamedTuple

ROLES = ("worker", "master", "steward", "template", "node")
CALLS = ("lose request", "lose answer", "reset", "late", "outlive", "outlive", "slow")  # of Redis
DATABASE_FAULTS = ("database away", "database full", "database read-only")
FOR_A_WHILE = ("redis away", "redis silent", "redis full", *DATABASE_FAULTS)
POINTS = ("kill at", "kill at", "fail at", "pause at", "freeze at")  # a named point of the product
VERBS = (
    "claim", "claim", "claim", "release", "release", "retry", "retry", "complete", "push", "replay",
    "lease", "permit", "admit",
)  # fmt: skip
CAUSES = {"release": "worker", "replay": "master"}  # whose death leads to a step
ITEMS = "database.write.crawlservice_item"  # after the rows of their pages
STEPS = (*VERBS, "dispatch", "fetch", "parse", "commit", "finish", "database", ITEMS)


class Fault(NamedTuple):
    """``at``: seconds. ``kind``: as below; ``target``: an index or a role; ``value``: as the kind
    needs it, mostly seconds. ``step``: the verb, or the beginning of the point, that it strikes;
    "" for any."""

    at: float
    kind: str
    target: str = ""
    value: float = 0.0
    step: str = ""

    def __str__(self) -> str:
        return f"{self.at:9.3f} {self.kind} {self.target} {self.value:.3f} {self.step}".rstrip()


def schedule(seed: int, seconds: float, number: int, nodes: int) -> list[Fault]:
    """``number`` faults within the first ``seconds``, sorted by time. A seed has some kinds only,
    and half of those that strike steps strike one (swarm testing: Groce et al., ISSTA 2012)."""
    chance = random.Random(f"faults {seed}")
    kinds = {k: n for k, n in KINDS.items() if chance.random() < (0.75 if n > 2 else 0.3)} or KINDS
    focus = chance.choice(STEPS)
    found: list[Fault] = []
    while len(found) < number:
        at = chance.uniform(0.5, seconds)
        kind = chance.choices([*kinds], weights=[*kinds.values()])[0]
        node = str(chance.randrange(nodes))
        step, value = "", 0.0
        target = node
        if kind == "kill":
            target = f"{node} {chance.choice(ROLES)}"
            value = chance.choice((0.0, 0.1, 1.0, 5.0, 20.0))  # seconds until a node is back
        elif kind == "pause":
            target = f"{node} {chance.choice((*ROLES[:3], 'node'))}"
            value = chance.choice((0.05, 0.5, 3.0, 8.0, 20.0, 40.0))
        elif kind == "redis call":
            target = chance.choice(CALLS)
            step = chance.choice((focus, focus, "")) if focus in VERBS else ""
            value = float(chance.randrange(1, 4 if step else 16))  # calls that it happens to
        elif kind == "redis fails over":
            value = chance.uniform(0.0, 1.5)  # seconds of which the replica knows nothing
        elif kind in FOR_A_WHILE:
            value = chance.choice((0.1, 1.0, 5.0, 12.0))
        elif kind == "redis back":
            value = chance.uniform(0.0, 15.0)  # seconds into the past
        elif kind == "point":
            target = f"{node} {chance.choice(POINTS)}"
            step = chance.choice((focus, ""))
            # Weight of the points that are passed before; of a step, on any node.
            value = chance.uniform(0.0, 4.0 if step else 100.0)
        elif kind == "clock":
            value = chance.choice((-3600.0, -5.0, 0.7, 90.0, 7200.0))
        elif kind == "drift":
            value = chance.choice((-0.05, -0.001, 0.001, 0.05))  # seconds gained each second
        found.append(Fault(at, kind, target, value, step))
        if step in CAUSES and len(found) < number:
            found.append(Fault(at + 0.1, "kill", f"{node} {CAUSES[step]}", 1.0))
    return sorted(found)


KINDS = {  # with their weights
    "kill": 6,
    "pause": 3,
    "point": 12,
    "redis call": 10,
    "redis away": 1,
    "redis silent": 1,
    "redis emptied": 1,
    "redis back": 1,
    "redis fails over": 1,
    "redis full": 1,
    "database away": 1,
    "database error": 2,
    "database full": 1,
    "database read-only": 1,
    "clock": 1,
    "drift": 1,
    "code": 2,
    "broken code": 1,
}
