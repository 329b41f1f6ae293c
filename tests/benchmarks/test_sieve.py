"""The policies of the benchmark of the sieve, on streams that can be counted by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.sieve.policies import POLICIES
from benchmarks.sieve.streams import links_of

CASES = [  # room, stream, links that are known
    ("LRU", 3, [1, 1, 1, 2, 3, 4, 1], 2),
    ("LRU", 2, [1, 2, 1, 3, 1], 2),
    ("FIFO", 2, [1, 2, 1, 3, 1], 1),
    ("LFU", 3, [1, 1, 1, 2, 3, 4, 1, 2], 3),
    ("weighted, as in the patent", 3, [1, 1, 1, 2, 3, 4, 1], 3),
    ("two generations (ours)", 2, [1, 2, 3, 1, 4, 5, 6, 1], 1),
    ("best possible", 2, [1, 2, 3, 1, 2, 3], 2),
]


@pytest.mark.parametrize(("name", "room", "stream", "known"), CASES)
def test_a_policy(name: str, room: int, stream: list[int], known: int) -> None:
    assert POLICIES[name](stream, room) == known


def test_none_is_better_than_the_best_possible_or_worse_than_nothing() -> None:
    draw = random.Random(3)
    stream = [int(draw.paretovariate(0.7)) % 500 for _ in range(5000)]
    most = len(stream) - len(set(stream))
    for size in (2, 10, 100, 600):
        best = POLICIES["best possible"](stream, size)
        assert best <= most
        assert all(0 <= policy(stream, size) <= best for policy in POLICIES.values())
    assert {POLICIES[name](stream, 1200) for name in POLICIES} == {most}


def test_the_links_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text('<a href="a.html">a</a> <a href="sub/b.html">b</a>')
    (tmp_path / "a.html").write_text('<a href="index.html">up</a> <a href="/gone.html">gone</a>')
    (tmp_path / "sub/b.html").write_text('<a href="../a.html">a</a> <a href="http://x/">x</a>')
    assert links_of(tmp_path) == [0, 1, 2, 3, 0, 4]


def test_a_directory_without_a_first_page(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no index\.html"):
        links_of(tmp_path)
