"""Places of samples: the newest pages of each callback and template, of several tasks, within a
size."""

from __future__ import annotations

from crawlservice.pages.sample import ROW, SamplePage, surplus

URL = "http://h/house/7"


def pages(
    numbers: range, callback: str = "parse", task: int = 1, stored: int = 0
) -> list[SamplePage]:
    """The newest first."""
    return [SamplePage(n, "shop", callback, task, URL, stored) for n in reversed(numbers)]


def test_each_template_of_a_callback_has_a_sample_and_all_beyond_have_one() -> None:
    found = [*pages(range(10))]
    found += [one._replace(number=one.number + 20, url="http://h/list?page=2") for one in found]
    assert sorted(surplus(found, 4, 0)) == [*range(6), *range(20, 26)]
    many = [one._replace(url=f"http://h{one.number}/") for one in pages(range(100))]
    left = sorted({one.number for one in many} - {*surplus(many, 4, 0)}, reverse=True)
    assert (len(left), left[-1] < 100) == (12, True)


def test_the_newest_of_each_callback_stay() -> None:
    found = [*pages(range(10)), *pages(range(20, 23), "house")]
    found += [one._replace(spider="news", number=one.number + 100) for one in found]
    assert sorted(surplus(found, 4, 1 << 30)) == [*range(6), *range(100, 106)]


def test_a_task_leaves_half_of_the_places_to_earlier_ones() -> None:
    new, old, oldest = (pages(range(n, n + 10), task=n) for n in (30, 20, 10))
    left = {one.number for one in new + old + oldest} - {*surplus(new + old + oldest, 4, 1 << 30)}
    assert left == {38, 39, 28, 29}
    few = pages(range(20, 21), task=2)
    assert {one.number for one in new + few} - {*surplus(new + few, 4, 1 << 30)} == {37, 38, 39, 20}


def test_all_have_as_many_fewer_as_the_size_requires() -> None:
    found = [*pages(range(10), stored=1000), *pages(range(20, 23), "house", stored=3000)]
    size = 2 * (2 * ROW + 4000)
    assert sorted(surplus(found, 20, size)) == [*range(8), 20]
    assert sorted(surplus(found, 20, size - 1)) == [*range(9), 20, 21]
    assert surplus(found, 0, size) == [one.number for one in found]
    assert surplus([], 20, size) == surplus(found, 20, 0) == []
