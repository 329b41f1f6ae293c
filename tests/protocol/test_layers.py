"""The barrier between layers, in all interleavings; and each line of it is needed."""

from __future__ import annotations

import pytest

from tests.protocol import layers

MOST = 3_000_000  # states; the model has fewer


def explore(mutant: str = "") -> tuple[str, int, bool]:
    """The failure, the number of states, and whether some end was reached."""
    start = layers.first()
    seen, stack, ended = {start}, [start], False
    while stack:
        state = stack.pop()
        ended = ended or layers.is_end(state)
        for _, after in layers.steps(state, mutant):
            if after in seen:
                continue
            if problem := layers.wrong(after):
                return problem, len(seen), ended
            seen.add(after)
            assert len(seen) < MOST
            stack.append(after)
    return "", len(seen), ended


def test_no_interleaving_breaks_the_barrier() -> None:
    problem, states, ended = explore()
    assert problem == ""
    assert ended
    assert states > 10_000


@pytest.mark.parametrize("mutant", layers.MUTANTS)
def test_each_line_is_needed(mutant: str) -> None:
    problem, _, _ = explore(mutant)
    assert problem
