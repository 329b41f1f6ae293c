"""The store of texts: the first page of each, its cost, and its limit."""

from __future__ import annotations

import os
import struct
from random import Random
from typing import Any

import pytest

from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.near import Like, NearPage
from crawlframe.near.fingerprint import (
    BITS,
    FEATURES,
    HEAD,
    Fingerprint,
    NearStore,
    fingerprint_of,
    head_of,
)
from tests.frontier.bench import Bench
from tests.near.texts import changed, text

BOOKS = NearStore(0, "name:books", 100_000)


def page(name: str, words: list[bytes]) -> NearPage:
    found = fingerprint_of(words)
    assert found is not None
    rid = name.encode().ljust(16)
    return NearPage(head_of(rid, name.encode()), found, f"http://a.example/{name}")


def random_page() -> NearPage:
    drawn = struct.unpack(f"{FEATURES}I", os.urandom(4 * FEATURES))
    features = sorted(feature >> 4 for feature in drawn)
    found = Fingerprint(tuple(features), os.urandom(BITS // 8))
    return NearPage(os.urandom(HEAD), found, "u")


def ask(bench: Bench, *pages: NearPage, store: NearStore = BOOKS) -> list[str | None]:
    """The URLs, or heads, of the pages that they are like."""
    found: list[Like | None] = bench.frontier.near.ask(store, pages)
    return [like and (like.url or like.head.hex()) for like in found]


def settle(bench: Bench, *pages: NearPage, store: NearStore = BOOKS) -> None:
    bench.frontier.near.settle(store, [one.head for one in pages], [])


FIRST = page("first", text(1, 300))
SECOND = page("second", changed(text(1, 300), 0.05, Random(1)))
OTHER = page("other", text(2, 300))


def test_the_first_page_stays_the_first(bench: Bench) -> None:
    assert ask(bench, FIRST, OTHER, SECOND) == [None, None, FIRST.url]
    assert ask(bench, SECOND, FIRST, OTHER) == [FIRST.url, None, None]


def test_answers_stay_the_same_until_a_page_is_settled(bench: Bench) -> None:
    """A request that runs again gets the answer of its first run, whatever came in between."""
    assert ask(bench, FIRST, SECOND) == [None, FIRST.url]
    bench.frontier.near.settle(BOOKS, [], [FIRST.head])  # it ended as an error
    nearer = page("nearer", changed(text(1, 300), 0.02, Random(2)))
    assert ask(bench, nearer) == [None]
    assert ask(bench, SECOND) == [FIRST.url]
    settle(bench, SECOND)
    assert ask(bench, SECOND) == [nearer.url]


def test_a_settled_page_is_named_by_its_head(bench: Bench) -> None:
    ask(bench, FIRST)
    settle(bench, FIRST)
    assert ask(bench, SECOND) == [FIRST.head.hex()]
    assert ask(bench, FIRST) == [None]  # its request was delivered once more


def test_the_same_page_of_another_task_is_no_duplicate(bench: Bench) -> None:
    ask(bench, FIRST, OTHER)
    settle(bench, FIRST, OTHER)
    again = FIRST._replace(head=b"next" + FIRST.head[4:])
    assert ask(bench, again) == [None]
    assert ask(bench, FIRST._replace(head=FIRST.head[:4] + b"new")) == [FIRST.head.hex()]


def test_a_page_that_failed_is_not_remembered(bench: Bench) -> None:
    ask(bench, FIRST)
    bench.frontier.near.settle(BOOKS, [], [FIRST.head, b"unknown"])
    assert ask(bench, SECOND) == [None]


def test_the_nearest_one_is_named(bench: Bench) -> None:
    far = page("far", changed(text(1, 300), 0.2, Random(5)))
    assert ask(bench, FIRST, far) == [None, None]
    near_far = page("x", changed(changed(text(1, 300), 0.2, Random(5)), 0.02, Random(6)))
    assert ask(bench, near_far) == [far.url]


def test_pages_of_a_template_are_different(bench: Bench) -> None:
    template = text(7, 150)
    pages = [page(f"t{n}", template + text(100 + n, 300)) for n in range(60)]
    assert ask(bench, *pages) == [None] * 60
    # All their features that say something are of their own part by now.
    again = [
        page(f"again{n}", template + changed(text(100 + n, 300), 0.05, Random(n)))
        for n in range(60)
    ]
    assert ask(bench, *again) == [one.url for one in pages]


def test_stores_are_separate(bench: Bench) -> None:
    other = BOOKS._replace(name="name:shops")
    assert ask(bench, FIRST) == [None]
    assert ask(bench, SECOND, store=other) == [None]
    assert ask(bench, SECOND) == [FIRST.url]


def test_the_store_of_a_task_ends_with_it(bench: Bench) -> None:
    mine = NearStore(1, limit=100_000)
    bench.open(task=1)
    ask(bench, FIRST, *(random_page() for _ in range(400)), store=mine)
    assert ask(bench, SECOND, store=mine) == [FIRST.url]
    assert [*bench.redis.scan_iter("*:near*:t1*")]
    bench.frontier.close_tasks([1])
    assert ask(bench, OTHER, store=mine) == [None]  # of a worker that is late
    assert [*bench.redis.scan_iter("*:near*")] == []
    assert not bench.frontier.is_open(1)


def test_the_store_of_a_name_is_forgotten_after_some_time(bench: Bench) -> None:
    ask(bench, FIRST, SECOND)
    for key in bench.redis.scan_iter("*:near*"):
        assert 0 < bench.redis.pttl(key) <= 90 * 24 * 3600_000
    bench.frontier.near.forget(BOOKS)
    assert [*bench.redis.scan_iter("*:near*")] == []


@pytest.fixture
def plain(make_bench: Any) -> Bench:
    """A bench that does not send each verb twice, which takes its time."""
    made: Bench = make_bench(store=PartitionedStore)
    return made


def fill(bench: Bench, store: NearStore, pages: int) -> None:
    for start in range(0, pages, 500):
        some = [random_page() for _ in range(min(500, pages - start))]
        assert not any(bench.frontier.near.ask(store, some))
        settle(bench, *some, store=store)


def memory(bench: Bench, store: NearStore) -> tuple[int, int]:
    """The pages that a store remembers, and the bytes that Redis uses for all its keys."""
    pages, limit = map(int, bench.redis.hmget(bench.key("NEAR", store.key), "pages", "limit"))
    keys = [*bench.redis.scan_iter(f"*:near*:{store.key}*", count=1000)]
    return min(pages, limit), sum(bench.redis.memory_usage(key, samples=0) for key in keys)


def test_pages_take_forty_bytes_and_are_found_while_the_index_grows(plain: Bench) -> None:
    """A small store takes more for each, but not much."""
    known = [random_page() for _ in range(1_000)]
    for start in (0, 500):
        some = known[start : start + 500]
        plain.frontier.near.ask(BOOKS, some)
        settle(plain, *some)
    pages, small = memory(plain, BOOKS)
    assert (pages, small < 64 << 10) == (1_000, True)
    fill(plain, BOOKS, 11_000)
    assert int(plain.redis.hget(plain.key("NEAR", BOOKS.key), "buckets")) == 128
    fill(plain, BOOKS, 8_000)
    size = int(plain.redis.hget(plain.key("NEAR", BOOKS.key), "buckets"))
    assert 150 < size < 250  # some buckets were divided, some were not
    pages, bytes_ = memory(plain, BOOKS)
    assert pages == 20_000
    assert bytes_ / pages <= 40
    again = [one._replace(head=os.urandom(HEAD)) for one in known]
    found = plain.frontier.near.ask(BOOKS, again)
    assert [like and like.head for like in found] == [one.head for one in known]


def test_the_last_pages_are_remembered(plain: Bench) -> None:
    store = BOOKS._replace(limit=1_000)
    known = [random_page() for _ in range(60)]
    plain.frontier.near.ask(store, known[:30])
    settle(plain, *known[:30], store=store)
    fill(plain, store, 980)
    plain.frontier.near.ask(store, known[30:])
    settle(plain, *known[30:], store=store)
    again = [one._replace(head=os.urandom(HEAD)) for one in known]
    found = plain.frontier.near.ask(store, again[30:] + again[:10])
    assert [like is not None for like in found] == [True] * 30 + [False] * 10
    settle(plain, *again, store=store)
    _, before = memory(plain, store)
    fill(plain, store, 20_000)  # most of its entries lead to pages that are gone
    pages, after = memory(plain, store)
    assert pages == 1_000
    assert before < 64 << 10
    assert after < 512 << 10  # 128 buckets with 512 entries
