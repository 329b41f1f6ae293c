"""BoundedDict forgets the oldest, whoever sets it and however."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from crawlframe.base.bounded_dict import BoundedDict


def test_the_oldest_is_dropped() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    for number, name in enumerate("abc"):
        kept[name] = number
    assert [*kept.items()] == [("b", 1), ("c", 2)]


def test_what_is_set_again_or_used_is_the_newest() -> None:
    kept: BoundedDict[str, int] = BoundedDict(3)
    kept["a"], kept["b"], kept["c"] = 1, 2, 3
    kept["a"] = 4
    assert kept.use("b") == 2
    assert kept.use("x") is None
    kept["d"] = 5
    assert [*kept] == ["a", "b", "d"]


def test_setting_a_key_that_is_there_drops_none() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept["a"], kept["b"], kept["b"] = 1, 2, 3
    assert dict(kept) == {"a": 1, "b": 3}


def test_other_ways_of_setting_are_bounded_too() -> None:
    kept: BoundedDict[int, int] = BoundedDict(2)
    kept.update({1: 1, 2: 2, 3: 3})
    kept.setdefault(4, 4)
    assert kept.setdefault(3, 0) == 3
    kept |= {5: 5}
    assert [*kept] == [4, 5]


def test_what_is_dropped_is_passed_on_and_what_is_removed_is_not() -> None:
    dropped: list[tuple[str, int]] = []
    kept: BoundedDict[str, int] = BoundedDict(2, lambda *pair: dropped.append(pair))
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    del kept["b"]
    kept["c"], kept["d"] = 4, 5
    assert dropped == [("a", 3)]


def test_threads_share_it() -> None:
    kept: BoundedDict[int, int] = BoundedDict(5)

    def work(first: int) -> None:
        for number in range(first, first + 20_000):
            kept[number % 11] = number
            kept.use(number % 7)

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(work, range(4))] == [None] * 4
    assert len(kept) <= 5
