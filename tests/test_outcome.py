"""Items become JSON that both databases take; requests become admissions, once each."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from dataclasses import dataclass
from typing import Any

import attrs
import pytest

from crawlframe import Request
from crawlframe.errors import SpiderError
from crawlframe.items.encode import encode_item
from crawlframe.run.collector import Collector
from crawlframe.run.link_filters import DomainFilter, KnownFilter, LinkPage, PageLimits
from crawlframe.run.outcome import Outcome, Verdict


@dataclass
class House:
    rooms: int
    price: decimal.Decimal


@attrs.define
class Flat:
    floor: int


NESTED: dict[str, Any] = {}
for _ in range(300):
    NESTED = {"a": NESTED}


@pytest.mark.parametrize(
    ("item", "stored"),
    [
        ({"a": 1}, {"a": 1}),
        (House(3, decimal.Decimal("1.10")), {"rooms": 3, "price": "1.10"}),
        (Flat(2), {"floor": 2}),
        ({"inner": [Flat(2)]}, {"inner": [{"floor": 2}]}),
        ({"day": datetime.date(2026, 1, 2)}, {"day": "2026-01-02"}),
        ({"set": {1}}, {"set": [1]}),
        ({"zero": "a\0b"}, {"zero": "ab"}),
        ({"half": "a\ud800b"}, {"half": "a?b"}),
        ({"nan": float("nan"), "inf": float("inf")}, {"nan": None, "inf": None}),
        ({"huge": 10**30, "no": math.nan}, {"huge": 10**30, "no": None}),
        ({"in": [House(10**30, decimal.Decimal(1))]}, {"in": [{"rooms": 10**30, "price": "1"}]}),
        ({1: "key"}, {"1": "key"}),
        ({"k\0ey": {"deep\0": "\0"}}, {"key": {"deep": ""}}),
        ({"day": datetime.date(2026, 1, 2), "x": "\0"}, {"day": "2026-01-02", "x": ""}),
    ],
)
def test_items(item: Any, stored: Any) -> None:
    assert json.loads(encode_item(item)) == stored


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"body": b"raw"}, r"item\['body'\] is bytes, which JSON has not; decode it"),
        ({"a": [object()]}, r"item\['a'\]\[0\] is object"),
        ({"n": [10**5000]}, r"item\['n'\]\[0\] is an integer of more than 4,300 digits"),
        (NESTED, "is nested more than 250 levels deep"),
        ("text", "yielded str 'text'; yield items"),
        (42, "yielded int '42'"),
    ],
)
def test_what_is_no_item_is_named(item: Any, words: str) -> None:
    with pytest.raises(SpiderError, match=words):
        encode_item(item)


def collect(*things: Any, **options: Any) -> Outcome:
    outcome = Outcome(b"r" * 16, 1, "h", b"", 0, 0)
    filters = options.pop("filters", [])
    page = LinkPage(outcome, **{"depth": 1, **options})
    collector = Collector(page, [*filters, KnownFilter()])
    for thing in things:
        collector.take(thing)
    return outcome


def urls(outcome: Outcome) -> list[str]:
    return [Request.decode(admission.record).url for admission in outcome.results.follow_ups]


def test_a_link_is_followed_once() -> None:
    outcome = collect(
        Request("http://a.example/x?b=1&a=2"),
        Request("http://a.example/x?a=2&b=1#part"),
        Request("http://a.example/y"),
    )
    assert urls(outcome) == ["http://a.example/x?b=1&a=2", "http://a.example/y"]
    assert outcome.results.duplicates == 1


def test_known_links_fall_out() -> None:
    known = {Request("http://a.example/x").fingerprint()}
    outcome = collect(Request("http://a.example/x"), known=(known, set()))
    assert outcome.results.follow_ups == []
    assert outcome.results.duplicates == 1


def test_dont_filter_makes_a_request_of_its_own() -> None:
    again = [Request("http://a.example/x", dont_filter=True) for _ in range(2)]
    outcome = collect(Request("http://a.example/x"), *again)
    assert len({admission.rid for admission in outcome.results.follow_ups}) == 3
    twin = collect(Request("http://a.example/x"), *again)
    assert [a.rid for a in twin.results.follow_ups] == [a.rid for a in outcome.results.follow_ups]


def test_depth_and_domain_limits() -> None:
    request = Request("http://a.example/x")
    assert collect(request, depth=3, filters=[PageLimits(2)]).results.follow_ups == []
    assert len(collect(request, depth=2, filters=[PageLimits(2)]).results.follow_ups) == 1
    assert collect(request, filters=[DomainFilter(lambda url: False)]).results.follow_ups == []


def test_priority_and_delay_travel() -> None:
    late = Request("http://a.example/late", delay=1.5)
    first = Request("http://a.example/first", priority=5)
    slow, soon = collect(late, first).results.follow_ups
    assert slow.delay == 1500
    assert soon.rank < slow.rank


def test_an_error_leaves_nothing_half_done() -> None:
    outcome = collect({"a": 1}, Request("http://a.example/x"))
    outcome.end(Verdict.ERROR, "callback", "boom")
    assert (outcome.results.items, outcome.results.follow_ups, outcome.results.fingerprints) == (
        [],
        [],
        [],
    )
