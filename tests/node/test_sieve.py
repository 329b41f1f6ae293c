"""The sieve is bounded, and never claims to know what was not added."""

from __future__ import annotations

from crawlframe.run.link_filters import Sieve


def knows(sieve: Sieve, task: int, fingerprint: bytes) -> bool:
    return any(fingerprint in some for some in sieve.of(task))


def test_it_knows_what_was_added_for_that_task_only() -> None:
    sieve = Sieve()
    sieve.add(1, [b"a", b"b"])
    assert knows(sieve, 1, b"a")
    assert not knows(sieve, 1, b"c")
    assert not knows(sieve, 2, b"a")


def test_it_forgets_the_oldest_generation() -> None:
    sieve = Sieve(size=10)
    for number in range(100):
        sieve.add(1, [b"%d" % number])
    known = [number for number in range(100) if knows(sieve, 1, b"%d" % number)]
    assert known[-1] == 99
    assert 5 <= len(known) <= 22
    assert known == list(range(known[0], 100))
