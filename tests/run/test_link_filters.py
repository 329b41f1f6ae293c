"""The filters of links, each alone, and how the collector counts their reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlframe.base.limits import ALIAS, DEPTH_LIMIT, LAYERS, NOFOLLOW, UNFOLLOWED
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.request.request import Request
from crawlframe.run.collector import Collector
from crawlframe.run.link_filters import (
    DROPPED,
    DUPLICATE,
    OFFSITE,
    WATCHED,
    DomainFilter,
    Ended,
    Keep,
    KnownFilter,
    LinkFilter,
    LinkPage,
    NewRequest,
    PageLimits,
    RenderedFragments,
    Repeated,
    SpiderFollow,
)
from crawlframe.run.outcome import Outcome
from tests.test_outcome import urls

A, B = "http://a.example/x", "http://b.example/x"


def page(**more: Any) -> LinkPage:
    return LinkPage(Outcome(b"r" * 16, 1, "h", b"", 0, 0), **more)


def reasons(one: LinkFilter, at: LinkPage, *given: str | Request) -> list[str | None]:
    keep = one.of_page(at)
    requests = [Request(url) if isinstance(url, str) else url for url in given]
    return [None if keep is None else keep(link_of(request)) for request in requests]


def link_of(request: Request) -> NewRequest:
    link = NewRequest()
    link.request, link.key = request, None
    return link


@pytest.mark.parametrize(
    ("one", "more", "reason"),
    [
        (PageLimits(depth_limit=2), {"depth": 2}, None),
        (PageLimits(depth_limit=2), {"depth": 3}, DEPTH_LIMIT),
        (PageLimits(layers=2), {"depth": 3}, LAYERS),
        (PageLimits(depth_limit=2, layers=1), {"depth": 3, "nofollow": True}, DEPTH_LIMIT),
        (PageLimits(layers=1), {"depth": 3, "nofollow": True}, LAYERS),
        (PageLimits(), {"depth": 3, "nofollow": True}, NOFOLLOW),
        (PageLimits(), {"depth": 3}, None),
        (Ended(), {}, None),
        (Repeated(), {}, None),
        (SpiderFollow(lambda request, response: None), {}, DROPPED),
        (SpiderFollow(lambda request, response: None), {"again": True}, None),
        (SpiderFollow(lambda request, response: request), {}, None),
        (DomainFilter(lambda url: "a.example" in url), {}, None),
        (DomainFilter(lambda url: "b.example" in url), {}, OFFSITE),
        (KnownFilter(), {"known": ({Request(A).fingerprint()}, ())}, DUPLICATE),
        (KnownFilter(), {"known": ((), {Request(A).fingerprint()})}, DUPLICATE),
        (KnownFilter(), {}, None),
    ],
)
def test_why_a_link_is_not_followed(
    one: LinkFilter, more: dict[str, Any], reason: str | None
) -> None:
    assert reasons(one, page(**more), A) == [reason]


def test_a_page_that_keeps_all_links_is_not_asked_for_each() -> None:
    for one in (PageLimits(3, 3), Ended(), Repeated()):
        assert one.of_page(page(depth=1)) is None


def test_a_domain_does_not_bind_what_is_not_filtered() -> None:
    free = Request(B, dont_filter=True)
    assert reasons(DomainFilter(lambda url: False), page(), A, free) == [OFFSITE, None]


def test_a_page_knows_its_links() -> None:
    assert reasons(KnownFilter(), page(), A, B, A) == [None, None, DUPLICATE]
    free = Request(A, dont_filter=True)
    assert reasons(KnownFilter(), page(), A, free, free) == [None, None, DUPLICATE], (
        "not admitted yet"
    )


def test_fragments_that_are_rendered_name_the_browser() -> None:
    route = Request(f"{A}#/1")
    reasons(RenderedFragments(), page(), route, A)
    assert route.downloader == "browser"


@pytest.mark.parametrize(
    ("reason", "duplicates", "counted"),
    [
        (DUPLICATE, 1, {}),
        (OFFSITE, 0, {}),
        (DROPPED, 0, {}),
        (WATCHED, 0, {}),
        (ALIAS, 0, {UNFOLLOWED + ALIAS: 1}),
        ("trap", 0, {UNFOLLOWED + "trap": 1}),
    ],
)
def test_how_reasons_are_counted(reason: str, duplicates: int, counted: dict[str, int]) -> None:
    class One:
        def of_page(self, page: LinkPage) -> Keep:
            return lambda link: reason

    told: list[tuple[str, str | None]] = []
    at = page()
    at.notes.append(lambda link, why: told.append((link.request.url, why)))
    Collector(at, [One(), KnownFilter()]).take(Request(A))
    stats = at.outcome.results.stats
    assert (at.outcome.results.duplicates, stats.counters if stats else {}) == (duplicates, counted)
    assert (at.outcome.results.follow_ups, told) == ([], [(A, reason)])


@pytest.mark.parametrize(
    ("one", "more", "error", "words"),
    [
        (Ended(), {"ends": True}, SpiderError, "the task has ended"),
        (SpiderFollow(lambda request, response: "x"), {}, SpiderError, "follow returned str 'x'"),  # type: ignore[arg-type,return-value]
    ],
)
def test_wrong_results_of_filters_are_errors(
    one: LinkFilter, more: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Collector(page(**more), [one, KnownFilter()]).take(Request(A))


@pytest.mark.parametrize("make", [lambda: float("nan"), lambda: 1e9])
def test_a_delay_must_be_a_number_of_seconds(make: Callable[[], float]) -> None:
    request = Request(A)
    request.delay = make()
    with pytest.raises(BadRequest, match="delay is"):
        Collector(page(), [KnownFilter()]).take(request)


def test_a_filter_may_change_a_link() -> None:
    at = page()
    other = SpiderFollow(lambda request, response: request.replace(url=B))
    collector = Collector(at, [other, DomainFilter(lambda url: "b.example" in url), KnownFilter()])
    collector.take(Request(A))
    assert urls(at.outcome) == [B]
