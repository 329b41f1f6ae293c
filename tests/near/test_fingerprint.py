"""Fingerprints of texts: equal everywhere, and near for texts that are nearly the same."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from crawlframe.near.fingerprint import (
    BITS,
    FEATURES,
    MIN_WORDS,
    MOST_BITS,
    Fingerprint,
    fingerprint_of,
    likeness,
)
from tests.near.texts import changed, text


def of(words: list[bytes]) -> Fingerprint:
    found = fingerprint_of(words)
    assert found is not None
    return found


def distance(one: bytes, other: bytes) -> int:
    """In how many bits two signatures differ, as Redis counts them."""
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).bit_count()


def test_a_short_text_has_none() -> None:
    assert fingerprint_of(text(1, MIN_WORDS - 1)) is None
    assert fingerprint_of(text(1, MIN_WORDS)) is not None


def test_a_text_of_one_word_has_one() -> None:
    found = of([b"ja"] * 60)
    assert len(found.features) == 1
    assert len(found.signature) == BITS // 8


def test_it_is_the_same_in_every_process() -> None:
    code = (
        "from tests.near.texts import text\n"
        "from crawlframe.near.fingerprint import fingerprint_of\n"
        "print(fingerprint_of(text(5, 300)))"
    )
    printed = subprocess.run(  # hashes of str and bytes differ there
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert printed == str(of(text(5, 300)))


def test_features_are_the_first_numbers() -> None:
    found = of(text(3, 400))
    assert len(found.features) == FEATURES
    assert [*found.features] == sorted(found.features)
    assert found.features[-1] < 1 << 29  # of 400


@pytest.mark.parametrize("words", [60, 300, 3_000])
def test_distance_follows_the_share_of_changed_words(words: int) -> None:
    chance = random.Random(words)
    shares = (0.02, 0.1, 0.3, 1.0)
    means = []
    for share in shares:
        total = 0
        for seed in range(40):
            one = text(seed, words)
            other = changed(one, share, chance) if share < 1 else text(seed + 1000, words)
            total += distance(of(one).signature, of(other).signature)
        means.append(total / 40)
    assert means == sorted(means)
    assert means[1] < MOST_BITS < means[2]
    assert means[3] == pytest.approx(BITS / 2, abs=10)  # some pairs of words are frequent


def test_moved_parts_change_little() -> None:
    one = text(9, 600)
    moved = one[400:] + one[:200] + one[200:400]
    assert distance(of(one).signature, of(moved).signature) < MOST_BITS / 2


def test_likeness() -> None:
    assert likeness(0) == 1
    assert likeness(BITS // 2) == 0
    assert likeness(MOST_BITS) == pytest.approx(0.57, abs=0.01)
