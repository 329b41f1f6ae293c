"""The rule by which the guard calls a figure worse, on figures made up."""

from __future__ import annotations

import random

import pytest

from benchmarks.guard import __main__ as command
from benchmarks.guard.rule import Pair, Ratios


def sitting(factor: float, noise: float, dice: random.Random) -> Ratios:
    """Ten pairs: a machine that drifts, and ``noise`` is one standard deviation of a ratio."""
    pairs = []
    for number in range(command.PAIRS):
        drift = 1 + number / 5
        slip = 1.4 if dice.random() < 0.1 else 1.0  # another program, for one side
        slips = [slip, 1.0] if dice.random() < 0.5 else [1.0, slip]
        old, new = (drift * one for one in slips)
        pairs.append(Pair(old, new * factor * dice.lognormvariate(0, noise)))
    return Ratios.of(pairs)


def found(factor: float, noise: float) -> float:
    """The share of runs that call it worse."""
    dice, runs = random.Random(1), 1000
    both = (sitting(factor, noise, dice).suspect and sitting(factor, noise, dice).suspect
            for _ in range(runs))  # fmt: skip
    return sum(both) / runs


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1, 0.2])
def test_noise_alone_is_hardly_ever_worse(noise: float) -> None:
    assert found(1.0, noise) <= 0.01


def test_a_gain_is_never_worse() -> None:
    assert found(0.9, 0.1) == 0


@pytest.mark.parametrize(("factor", "noise"), [(1.1, 0.03), (1.2, 0.1), (1.5, 0.2)])
def test_what_became_dearer_is_found(factor: float, noise: float) -> None:
    assert found(factor, noise) > 0.9


def test_a_few_slow_pairs_are_no_proof() -> None:
    few = Ratios((0.9, 0.95, 0.99, 1.06, 1.06, 1.2, 1.3, 1.3, 1.5, 2.0))
    assert few.median > 1.05
    assert not few.suspect  # three of ten were faster
    small = Ratios((1.01,) * 10)
    assert small.above == 10
    assert not small.suspect  # slower each time, but by 1 %
    assert Ratios((0.9, 0.95, *[1.06] * 8)).suspect


def test_only_what_was_suspect_twice_is_worse() -> None:
    slow, even = [Pair(1.0, 1.2)] * 4, [Pair(1.0, 1.0)] * 4
    first = {"page": even, "redis": slow, "command": slow, "reload": even}
    assert command.suspects(first) == {"redis", "command"}
    second = {"page": slow, "redis": slow, "command": even}
    assert command.worse(first, second) == ["redis"]
    assert command.worse(first, {}) == []


def test_the_recorded_commit_is_a_whole_hash() -> None:
    assert len(bytes.fromhex(command.RECORDED.read_text())) == 20


def test_the_table_names_each_figure_once(capsys: pytest.CaptureFixture[str]) -> None:
    command.report({"page": [Pair(400.0, 500.0), Pair(400.0, 480.0)]}, "Beside")
    text = capsys.readouterr().out
    assert "400.0  490.0  1.225 (1.212-1.238)   2 of 2  suspect" in text
