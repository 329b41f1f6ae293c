"""Rate headers: what an API allows, in each of the forms in which it is said."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from multidict import CIMultiDict

from crawlframe.node.worker.verdict.signals import Quota, quota_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response


def quota(*headers: tuple[str, str]) -> Quota | None:
    request = Request("http://api.example/")
    return quota_of(Response(request.url, 200, CIMultiDict(headers), b"", request))


def old(remaining: str, reset: str, prefix: str = "X-RateLimit") -> Quota | None:
    return quota((f"{prefix}-Remaining", remaining), (f"{prefix}-Reset", reset))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"default";r=50;t=30', (50, 30)),
        ('"default"; r=0 ; t=7', (0, 7)),
        ('"hour";r=900;t=3000, "minute";r=1;t=20', (1, 20)),
        ("limit=100, remaining=50, reset=5", (50, 5)),
        ('"default";r=50', None),
        ('"day";r=0;t=900000', None),
        ("nonsense", None),
    ],
)
def test_the_header_of_the_draft(value: str, expected: tuple[int, float] | None) -> None:
    assert quota(("RateLimit", value)) == expected


@pytest.mark.parametrize("prefix", ["RateLimit", "X-RateLimit", "X-Rate-Limit", "x-ratelimit"])
def test_the_pairs(prefix: str) -> None:
    assert old("3", "60", prefix) == (3, 60)


def test_a_reset_may_be_a_time() -> None:
    soon = time.time() + 90
    forms = (
        str(round(soon)),
        str(round(1000 * soon)),
        formatdate(soon, usegmt=True),
        datetime.fromtimestamp(soon, UTC).isoformat(),
        datetime.fromtimestamp(soon, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    for text in forms:
        found = old("3", text)
        assert found is not None, text
        assert found.reset == pytest.approx(90, abs=5), text
    past = old("3", str(round(time.time() - 90)))
    assert past == (3, 0)


@pytest.mark.parametrize(
    ("remaining", "reset"),
    [
        ("", "60"),
        ("many", "60"),
        ("-1", "60"),
        ("3", ""),
        ("3", "soon"),
        ("3", "nan"),
        ("0", "1e9"),
    ],
)
def test_what_cannot_be_read_says_nothing(remaining: str, reset: str) -> None:
    found = old(remaining, reset)
    assert found is None or (reset == "1e9" and found.reset == 0)
    assert quota(("X-RateLimit-Remaining", "0")) is None


def test_the_one_that_allows_the_least_counts() -> None:
    found = quota(
        ("RateLimit", '"default";r=50;t=30'),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset", "20"),
    )
    assert found == (0, 20)
    assert Quota(3, 20).gap == 5
