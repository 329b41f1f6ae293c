"""Random walks of the real scripts, ledger and renewal in lockstep with the model: it lists the
possible steps, one of them is done for real, and the result must agree with the model.
MACHINE_EXAMPLES=2000 in the environment runs more, different ones each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from redis import Redis

from tests.protocol import model
from tests.protocol.check import has_ended, violations
from tests.protocol.real import Real

EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", 0))
STEPS = 60  # with trouble; then there is none until the end
CALM, STEADY = 0.75, 0.7  # shares of steps: without trouble; of the actor of the step before
TROUBLE = model.Budget(
    kills=3, expiries=2, losses=2, lost_answers=4, parkings=3, cancels=1, redirects=3
)

# Steps that lead a task to its end if nothing else goes wrong, most urgent first.
ONWARDS = (
    *("resume", "replay", "close", "fill", "begin", "renew"),
    *("complete", "push", "commit", "fetch", "sweep", "claim", "finish", "settle"),
)
# Where an action that is one step of the model may be interrupted.
BREAKS = {
    "commit": ["commit.before:1:error", "commit.after:1:error"],
    "finish": ["finish.before:1:error", "finish.after:1:error"],
    "fill": [
        f"{verb}.{moment}:{nth}:error"
        for verb in ("era", "replay", "open", "admit", "push", "complete")
        for moment in ("before", "after")
        for nth in (1, 2)
    ],
}


class Walk:
    """The real system and the model, side by side."""

    def __init__(self, redis: Redis) -> None:
        self.real = Real(redis)
        self.state = model.first(TROUBLE)
        self.log: list[str] = []

    def take(self, step: model.Step, broken_off: str = "") -> None:
        """One step of both: of steps that the real system may choose among, the chosen one."""
        self.log.append(" ".join(map(str, (*step[:2], "" if step.ordinary else "!", broken_off))))
        allowed = [step]
        if step.name == "claim":
            allowed = [other for other in model.steps(self.state) if other[:3] == step[:3]]
        self.real.do(self.state, step, broken_off)
        found = observed(*self.real.read())
        fitting = [
            one.state
            for one in allowed
            if found == observed(one.state.redis, one.state.database, one.state.nodes)
        ]
        if not fitting:
            redis, database, nodes = found
            wanted = "\n".join(map(str, (step.state.redis, step.state.database, step.state.nodes)))
            was = "\n".join(map(str, (redis, database, nodes)))
            pytest.fail("\n".join([*self.log, "the model:", wanted, "the real thing:", was]))
        self.state = fitting[0]
        assert not [*violations(self.state)]

    def go_on(self) -> bool:
        """Takes a step towards the end. Returns whether there was one."""
        towards = [
            step
            for step in model.steps(self.state)
            if step.ordinary and step.name in ONWARDS and step.state != self.state
        ]
        if towards:
            self.take(min(towards, key=lambda step: ONWARDS.index(step.name)))
        return bool(towards)


def observed(
    redis: model.Redis, database: model.Database, nodes: tuple[model.Node, ...]
) -> tuple[model.Redis, model.Database, tuple[model.Node, ...]]:
    """The state without facts about nodes that do not exist to notice them."""
    living = {(n, node.generation) for n, node in enumerate(nodes) if node.phase != "begin"}
    here = {n for n, _ in living if nodes[n].era == redis.era}
    return redis._replace(lacks=redis.lacks & here, over=redis.over & living), database, nodes


def wander(both: Walk, chance: Random) -> None:
    """A random walk to the end of the task. An actor tends to continue, so that others fall
    behind."""
    actor = 0
    for _ in range(STEPS):
        possible = [*model.steps(both.state)]
        calm = chance.random() < CALM
        some = [step for step in possible if step.ordinary == calm] or possible
        if chance.random() < STEADY:
            some = [step for step in some if step.actor == actor] or some
        name = chance.choice(sorted({step.name for step in some}))
        step = chance.choice([step for step in some if step.name == name])
        actor = step.actor
        both.take(step, chance.choice(["", *BREAKS.get(name, [])]))
    while both.go_on():
        pass
    assert has_ended(both.state), both.log


# Paths that random walks rarely reach: a name and, for steps of a node, its number.
STORIES = {
    "a worker commits what was cancelled": (
        "claim0 fetch0 lapse renew1 replay cancel sweep finish1 commit0 settle"
    ),
    "a worker commits what has the row of a cancelled request": (
        "claim0 fetch0 lapse renew1 replay cancel sweep finish1 settle commit0"
    ),
    "a node redirects what another holds": "claim0 lapse renew1 replay claim1 redirect0",
    "a redirect is cancelled": "claim0 redirect0 cancel sweep",
    "a node parks what another holds": "claim0 lapse renew1 replay claim1 park0",
    "a list is pushed whose parent is done": (
        "claim0 fetch0 commit0 lapse renew1 replay claim1 fetch1 commit1 push1 complete1 push0"
    ),
}


@pytest.fixture
def walk(orm: str, redis_client: Redis, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Walk]:
    """Makes walks, each from the start."""
    # Two follow-ups are a long list, as in the model.
    monkeypatch.setattr("crawlframe.frontier.frontier.MAX_ENTRIES", 1)
    return lambda: Walk(redis_client)


@pytest.mark.parametrize("story", STORIES)
def test_stories(walk: Callable[[], Walk], story: str) -> None:
    both = walk()
    for word in ["close", "fill", "begin0", "begin1", *STORIES[story].split()]:
        name = word.rstrip("01")
        actor = int(word[len(name) :] or model.STEWARD)
        possible = model.steps(both.state)
        both.take(next(step for step in possible if (step.name, step.actor) == (name, actor)))
    while both.go_on():
        pass
    assert has_ended(both.state), both.log


@pytest.mark.timeout(0 if EXAMPLES else 300)
@pytest.mark.parametrize("examples", [16, pytest.param(80, marks=pytest.mark.long)])
def test_the_real_thing_does_what_the_model_does(walk: Callable[[], Walk], examples: int) -> None:
    @settings(
        max_examples=EXAMPLES or examples,
        derandomize=not EXAMPLES,
        database=None,
        phases=[Phase.generate],  # another chance is another walk, not a shorter one
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def walks(chance: Random) -> None:
        wander(walk(), chance)

    walks()
