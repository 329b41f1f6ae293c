"""Rules of the quality of a run: sketches, texts, windows, the judge."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from crawlframe import Expect
from crawlservice.quality.deviation import Deviation
from crawlservice.quality.limits import highest, lowest
from crawlservice.quality.metrics import Key, metrics
from crawlservice.quality.norms import NONE, Good, Norms, Totals, norms_of
from crawlservice.quality.profile import FIELDS, NAMES, Content, merged, section_of
from crawlservice.quality.rules import deviations
from crawlservice.quality.run import LEVELS, SIZE_BLOCKS, RunStats, decode, encode
from crawlservice.quality.sketch import (
    FREQUENT,
    MAX_HASHES,
    Distinct,
    Frequent,
    LogHistogram,
    hash_of,
)
from crawlservice.quality.texts import count_letters, distance, is_broken, shares, words_of

ANYTHING = Expect()


def item(n: int, **fields: Any) -> dict[str, Any]:
    return {**_item(n), **fields}


@cache
def _item(n: int) -> dict[str, Any]:
    random = Random(n)
    words = ("the", "chair", "of", "wood", "and", "the", "lamp", "with", "red", "light")
    text = " ".join(random.choices(words, k=8))
    return {"sku": f"s{n}", "name": text, "price": 5 + random.random() * 20, "old": n % 2}


def a_run(count: int, first: int = 0, faulty_from: int = 10**9, **fault: Any) -> RunStats:
    run = RunStats()
    for n in range(first, first + count):
        at = float(n - first)
        data = item(n, **(fault if at >= faulty_from else {}))
        run.add_item(data, "v1", at, ())
        run.add_page(f"http://a.example/x/{n}", 200, 1, failed=False, version="v1", at=at)
    return run


def good(count: int = 200, runs: int = 5, **more: Any) -> Norms:
    made = [Good(n, a_run(count, 1000 * n), totals(count)) for n in range(runs)]
    return norms_of(made, alike=more.get("alike", True))


def totals(items: int, pages: int | None = None, seconds: float | None = 100.0) -> Totals:
    return Totals(items, items if pages is None else pages, seconds)


def names(found: list[Deviation]) -> list[str]:
    return [f"{one.monitor} {one.field or one.subject}".rstrip() for one in found]


# -- sketches -------------------------------------------------------------------------------------


def test_quantiles_are_known_to_5_percent() -> None:
    sketch = LogHistogram()
    for n in range(1, 1001):
        sketch.add(n)
    for share in (0.1, 0.5, 0.9):
        assert sketch.quantile(share) == pytest.approx(1000 * share, rel=0.06)


@pytest.mark.parametrize("value", [0, -0.0, 1e-300, math.nan, math.inf, -math.inf, -3, 10**400])
def test_a_histogram_takes_any_number(value: float) -> None:
    sketch = LogHistogram()
    sketch.add(value)
    assert sketch.total == 1
    assert math.isfinite(sketch.quantile(0.5))


def test_distinct_values_are_exact_while_they_are_few() -> None:
    sketch = Distinct()
    for n in range(MAX_HASHES):
        sketch.add(hash_of(str(n)))
    sketch.add(hash_of("0"))
    assert sketch.estimate == pytest.approx(MAX_HASHES)
    assert sketch.repeated == 1


def test_many_distinct_values_are_estimated_and_merged() -> None:
    parts = [Distinct() for _ in range(4)]
    for n in range(20_000):
        parts[n % 4].add(hash_of(str(n // 2)))
    whole = Distinct()
    for part in parts:
        whole.merge(part)
    assert whole.estimate == pytest.approx(10_000, rel=0.35)
    assert whole.ratio == 0.5
    assert len(whole.counts) <= MAX_HASHES


def test_the_most_frequent_values() -> None:
    sketch, other = Frequent(), Frequent()
    for n in range(1000):
        sketch.add("often" if n % 3 == 0 else f"seldom {n}")
        other.add(f"other {n}")
    sketch.merge(other)
    value, count = sketch.most
    assert value == "often"
    assert 200 < count <= 334
    assert len(sketch.counts) <= FREQUENT


@pytest.mark.parametrize("text", ["KÃ¼che", "itâ€™s", "caf\ufffd", "Ð¡Ñ‚Ð¾Ð»", "a\x92b"])
def test_broken_texts(text: str) -> None:
    assert is_broken(text)


@pytest.mark.parametrize(
    "text", ["Küche", "it’s", "São Paulo", "стол", "桌子", "Ångström", "Ã", ""]
)
def test_whole_texts(text: str) -> None:
    assert not is_broken(text)


def test_letters_of_languages() -> None:
    counts: list[dict[int, int]] = [{}, {}, {}]
    for text, into in zip(("the chair", "a chair the", "стол и 桌子"), counts, strict=True):
        count_letters(text, into)
    one, other, foreign = map(shares, counts)
    assert distance(one, one) == 0
    assert distance(one, other) < 0.1
    assert distance(one, foreign) == pytest.approx(1)
    assert words_of("The 3 chairs, x") == ["the", "chairs"]


# -- profiles -------------------------------------------------------------------------------------


def test_a_profile_is_bounded() -> None:
    run = RunStats()
    for n in range(300):
        run.add_item({f"f{n}": "x" * 1000, "list": [n], "odd": {"a": n}}, f"v{n}", 0, ())
        run.add_page(f"http://h{n}.example/a/b", n, 1, failed=False, version=f"v{n}", at=0)
    content = run.content()
    assert len(content.fields) <= FIELDS
    assert len(content.sections) <= NAMES + 1
    assert len(encode(run.settled())) < 200_000
    assert len(encode(run)) < 300_000


@pytest.mark.parametrize("data", [None, [], 3, "text", {"a": None}, {"a": {"b": [1]}}, {"": ""}])
def test_any_item_is_taken(data: Any) -> None:
    content = Content()
    content.add_item(data)
    assert content.items == 1


def test_it_is_the_same_after_it_was_stored_and_however_it_was_read() -> None:
    run = a_run(300)
    assert encode(decode(encode(run))) == encode(run)
    parts = [Content(), Content()]
    for n in range(300):
        parts[n // 100 % 2].add_item(item(n), "v1")
    both = merged(*parts)
    field, same = both.fields["price"], run.content().fields["price"]
    assert (field.filled, field.numbers) == (same.filled, same.numbers)
    assert metrics(both)[Key("filled", "price")].value == 1


@pytest.mark.parametrize(
    ("url", "section"),
    [
        ("http://a.example/books/1?x=/y/", "a.example/books"),
        ("http://a.example/page", "a.example/"),
        ("http://a.example", "a.example/"),
        ("http://[bad/x", "…"),
    ],
)
def test_sections(url: str, section: str) -> None:
    assert section_of(url) == section


# -- the judge ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
def test_a_good_run(ended: bool) -> None:
    found = deviations(a_run(200, 9000), good(), ANYTHING, totals=totals(200), ended=ended)
    assert found == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"price": None}, "filled price"),
        ({"price": 0}, "zero price"),
        ({"price": "12"}, "kind price"),
        ({"name": "Are you a robot?"}, "top name"),
        ({"name": "der StÃ¼hle und das Licht mit dem Holz"}, "broken name"),
        ({"name": "стол и лампа на столе"}, "letters name"),
        ({"sku": "s1"}, "distinct sku"),
    ],
)
def test_faults_are_found_at_once(fault: dict[str, Any], expected: str) -> None:
    run = a_run(12, 9000, faulty_from=0, **fault)
    found = deviations(run, good(), ANYTHING, totals=totals(12), ended=False)
    assert expected in names(found)


def test_a_field_that_is_always_missing_is_found() -> None:
    run = RunStats()
    for n in range(30):
        data = item(n)
        del data["price"]
        run.add_item(data, "", n, ())
    found = deviations(run, good(), ANYTHING, totals=totals(30), ended=False)
    assert names(found) == ["filled price"]
    assert (found[0].seen, found[0].usual) == (0, 1)


def test_a_fault_that_begins_late_is_found_and_dated() -> None:
    run = a_run(230, 9000, faulty_from=190, price=None)
    (found,) = deviations(run, good(), ANYTHING, totals=totals(230), ended=True)
    assert (found.monitor, found.field) == ("filled", "price")
    assert found.since is not None
    assert 160 <= found.since <= 210


def test_a_fault_is_seen_after_few_items_whenever_it_begins() -> None:
    norms = good(1000)
    for first in (0, 137, 600, 990):
        seen = [
            count
            for count in range(1, 11)
            if names(deviations(a_run(first + count, 0, first, price=None), norms, ANYTHING,
                           totals=totals(first + count), ended=False))
        ]  # fmt: skip
        assert seen == [*range(seen[0], 11)]
        assert 3 <= seen[0] <= 10
    found = deviations(
        a_run(300, 0, 290, price=None), norms, ANYTHING, totals=totals(300), ended=False
    )
    (one,) = (one for one in found if one.field == "price")
    assert (one.monitor, one.since) == ("filled", 290.0)


def test_empty_stretches_that_good_runs_have_too_are_no_fault() -> None:
    """A part of the site has no prices: 15 items in a row, at another place in each run."""

    def with_gap(place: int, size: int) -> RunStats:
        run = RunStats()
        for n in range(1000):
            gap = place <= n < place + size
            run.add_item(item(n, **({"price": None} if gap else {})), "v1", float(n), ())
        return run

    norms = norms_of(
        [Good(n, with_gap(90 * n + 50, 15), totals(1000)) for n in range(8)], alike=True
    )
    run = RunStats()
    for n in range(430):
        fields = {"price": None} if 400 <= n < 415 else {}
        run.add_item(item(n, **fields), "v1", float(n), ())
        if n >= 400:
            assert deviations(run, norms, ANYTHING, totals=totals(n + 1), ended=False) == []


def test_pages_with_half_of_their_items_are_seen_after_few_pages() -> None:
    def pages(count: int, *items: int, halved: range = range(0)) -> RunStats:
        run = RunStats()
        for n in range(count):
            n_items = items[n % len(items)] // (2 if n in halved else 1)
            run.add_page(f"http://a.example/x/{n}", 200, n_items, failed=False, version="v",
                         at=float(n))  # fmt: skip
        return run

    norms = norms_of(
        [Good(n, pages(200, 11, 12, 13), totals(2400, 200)) for n in range(5)], alike=True
    )
    assert deviations(pages(10, 12, 11), norms, ANYTHING, totals=totals(115, 10), ended=False) == []
    found = deviations(pages(5, 6, 5), norms, ANYTHING, totals=totals(28, 5), ended=False)
    assert names(found) == ["yield"]
    # In the middle of a run whose pages have the usual number on average.
    run = pages(200, 11, 12, 13, halved=range(100, 110)).settled()
    (one,) = deviations(run, norms, ANYTHING, totals=totals(2340, 200), ended=True)
    assert one.monitor == "yield"
    assert one.since is not None
    assert 100 <= one.since < 110


def test_pages_that_were_read_before_their_items_do_not_hide_a_fault() -> None:
    """The service reads up to some hundred pages, and then their items."""

    def run(count: int, faulty_from: int = 10**9) -> RunStats:
        made = RunStats()
        for start in range(0, count, 500):
            for n in range(start, min(count, start + 500)):
                made.add_page(f"http://a.example/x/{n}", 200, 1, failed=False, version="", at=n)
            for n in range(start, min(count, start + 500)):
                fields = {"price": None} if n >= faulty_from else {}
                made.add_item(item(n, **fields), "v1", float(n), ())
        return made

    norms = norms_of([Good(n, run(1000), totals(1000)) for n in range(5)], alike=True)
    assert {low for key, (low, _) in norms.steps.items() if key.monitor == "filled"} == {1.0}
    found = deviations(run(710, 700), norms, ANYTHING, totals=totals(710), ended=False)
    assert [(one.monitor, one.field, one.since) for one in found] == [("filled", "price", 700.0)]


def test_blocks_of_the_latest_part_grow_with_their_age() -> None:
    run = RunStats()
    for n in range(3_003):
        run.add_item({"a": n}, "v1", float(n), ())
    latest = run.latest_items
    sizes = [block.content.items for block in latest.blocks]
    assert sizes == sorted(sizes, reverse=True)
    assert all(sizes.count(size) <= SIZE_BLOCKS for size in sizes)
    assert len(sizes) <= SIZE_BLOCKS * LEVELS
    assert [block.at for block in latest.blocks] == [
        3_000.0 - sum(sizes[place:]) for place in range(len(sizes))
    ]
    stretches = [(at, content.items) for at, content in latest.stretches()]
    assert all(at == 3_003 - items for at, items in stretches)
    assert stretches[0][1] == 8
    assert all(2 * after[1] >= 3 * before[1] for before, after in pairwise(stretches))


def test_an_ended_run_keeps_nothing_of_its_latest_part() -> None:
    run = a_run(203)
    assert run.items_read == run.settled().items_read == 203
    assert run.settled().content().coverage == run.content().coverage
    assert not run.settled().latest_items.blocks
    assert len(encode(run.settled())) < len(encode(run))
    assert run.latest_items.blocks


def test_a_few_values_prove_nothing() -> None:
    run = a_run(4, 9000, faulty_from=0, price=None)
    assert deviations(run, good(), ANYTHING, totals=totals(4), ended=False) == []


def test_two_good_runs_are_too_few_to_compare() -> None:
    norms = good(runs=2)
    assert norms == NONE
    run = a_run(50, faulty_from=0, price=None)
    assert deviations(run, norms, ANYTHING, totals=totals(50), ended=True) == []


@pytest.mark.parametrize(
    ("before", "now", "is_found"),
    [
        ([200, 200, 200, 200, 200], 100, True),
        ([200, 210, 190, 205, 195, 200], 120, True),
        ([415, 585, 695, 655, 500], 305, False),  # it may be another day of the week
        ([200, 210, 190, 205, 195, 200], 170, False),
        ([200, 210, 190, 205, 195, 200], 900, False),  # more is no fault
        ([200, 190, 180, 171, 163, 155, 147, 140], 210, False),  # it grows
        ([200, 190, 180, 171, 163, 155, 147, 140], 105, True),
        ([400, 900, 300, 800, 500, 700, 350], 300, False),  # it is never the same
        ([60, 60, 60], 32, False),  # three runs say little
        ([4, 4, 4, 4], 1, False),
    ],
)
def test_totals(before: list[int], now: int, is_found: bool) -> None:
    made = [Good(n, a_run(20), totals(count)) for n, count in enumerate(before)]
    norms = norms_of(made, alike=True)
    found = deviations(a_run(20), norms, ANYTHING, totals=totals(now), ended=True)
    assert ("items" in names(found)) == is_found
    assert deviations(a_run(20), norms, ANYTHING, totals=totals(now), ended=False) == []


@pytest.mark.parametrize(("seconds", "is_found"), [(150, False), (195, False), (400, True)])
def test_durations(seconds: float, is_found: bool) -> None:
    norms = good()
    found = deviations(a_run(200), norms, ANYTHING, totals=totals(200, seconds=seconds), ended=True)
    assert names(found) == (["duration"] if is_found else [])


def test_errors_and_statuses() -> None:
    run = a_run(100, 9000)
    for n in range(40):
        run.add_page(f"http://a.example/x/y{n}", 403, 0, failed=True, version="v1", at=0)
    found = deviations(run, good(), ANYTHING, totals=totals(100), ended=False)
    assert names(found) == ["errors", "status 403"]


def test_a_part_of_the_site_that_is_gone() -> None:
    def site(sections: str, first: int) -> RunStats:
        run = RunStats()
        for n in range(120):
            section = sections[n % len(sections)]
            run.add_item(item(first + n, category=section), "v1", n, ())
            url = f"http://a.example/{section}/{n}"
            run.add_page(url, 200, 1, failed=False, version="v1", at=n)
        return run

    norms = norms_of([Good(n, site("abcd", 200 * n), totals(120)) for n in range(4)], alike=True)
    assert deviations(site("abcd", 9000), norms, ANYTHING, totals=totals(120), ended=True) == []
    found = deviations(site("abc", 9000), norms, ANYTHING, totals=totals(120), ended=True)
    assert names(found) == ["section a.example/d", "choice category"]


def test_other_arguments_tell_less() -> None:
    run = a_run(200, 9000, faulty_from=0, price=9000.0)
    found = deviations(run, good(alike=False), ANYTHING, totals=totals(20), ended=True)
    assert names(found) == ["top price", "distinct price"]


@pytest.mark.parametrize("ended", [False, True])
def test_expectations_while_it_runs(ended: bool) -> None:
    expect = Expect(items=100, fields={"price": 0.9}, errors=0.1, within=50, unique="sku")
    run = a_run(40, faulty_from=38, price=None)
    early = deviations(run, NONE, expect, totals=totals(40, seconds=10), ended=ended)
    assert names(early) == (["items"] if ended else [])
    late = deviations(run, NONE, expect, totals=totals(140, seconds=60), ended=ended)
    assert names(late) == ["duration"]


def test_errors_that_later_pages_can_still_make_up_for() -> None:
    expect = Expect(errors=0.5)
    run = RunStats()
    for n in range(60):
        run.add_page("http://a.example/", 500, 0, failed=True, version="", at=n)
    for pages, expected in ((1000, []), (100, ["errors"]), (0, ["errors"])):
        found = deviations(run, NONE, expect, totals=totals(0), ended=False, expected_pages=pages)
        assert names(found) == expected


def test_what_is_expected_and_unusual_is_told_once() -> None:
    run = a_run(50, 9000, faulty_from=0, price=None)
    found = deviations(run, good(), Expect(fields={"price": 0.98}), totals=totals(50), ended=False)
    assert [one.source for one in found] == ["expectation"]


def test_how_sure_a_share_is() -> None:
    assert lowest(0.0, 10) == 0
    assert highest(1.0, 10) == 1
    assert 0.05 < lowest(0.5, 20) < 0.5 < highest(0.5, 20) < 0.95
    assert highest(0.0, 1000) < 0.02
