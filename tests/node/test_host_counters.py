"""A worker's counts of hosts, and their writing by the commit thread."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.node.worker.commit import host_counters
from crawlframe.node.worker.commit.host_counters import WRITE_SECONDS, HostCounters
from crawlframe.request.request import END_URL, ROOT_URL
from crawlframe.run.outcome import Outcome, Verdict
from tests.outcomes import set_fields


def outcome(host: str = "a.example", **fields: Any) -> Outcome:
    made = Outcome(b"", 1, host, b"", 0, 0, url=f"http://{host}/")
    return set_fields(made, **fields)


def test_pages_answers_and_problems_are_counted() -> None:
    counters = HostCounters()
    refused = outcome(verdict=Verdict.RETRY, reason="http_429", status=429, fetch_ms=10, size=5)
    done = outcome(status=200, fetch_ms=30, size=100)
    failed = outcome(verdict=Verdict.ERROR, reason="timeout", fetch_ms=3000)
    other = outcome("b.example", status=200, fetch_ms=7)
    counters.add([refused, done, failed, other], 0.0)
    taken = counters.take()
    found = taken["a.example"]
    assert (found.pages, found.errors, found.bytes) == (2, 1, 105)
    assert (found.answered, found.fetch_ms, found.statuses) == (2, 40, {429: 1, 200: 1, 0: 1})
    assert (found.last_status, found.last_reason) == (None, "timeout")
    assert (taken["b.example"].last_status, taken["b.example"].last_reason) == (200, "")
    assert counters.take() == {}


@pytest.mark.parametrize(
    "kept_out",
    [
        outcome("/1", url=ROOT_URL),
        outcome("/1/end", url=END_URL),
        outcome(verdict=Verdict.ERROR, reason="cancelled"),
        outcome(verdict=Verdict.ERROR, reason="robots"),
        outcome(verdict=Verdict.PARK, reason="no such callback"),
        outcome(verdict=Verdict.DEFER, reason="memory"),
    ],
)
def test_what_says_nothing_of_a_host_is_left_out(kept_out: Outcome) -> None:
    counters = HostCounters()
    counters.add([kept_out], 0.0)
    assert counters.take() == {}


def test_a_page_that_was_fetched_and_then_excluded_is_no_error() -> None:
    counters = HostCounters()
    counters.add([outcome(verdict=Verdict.ERROR, reason="usage", status=200, fetch_ms=5)], 0.0)
    found = counters.take()["a.example"]
    assert (found.pages, found.errors, found.statuses, found.last_reason) == (1, 0, {200: 1}, "")


def test_they_are_due_some_seconds_after_the_first() -> None:
    counters = HostCounters()
    assert counters.left(50.0) is None
    counters.add([outcome()], 100.0)
    counters.add([outcome()], 102.0)
    assert counters.left(101.0) == WRITE_SECONDS - 1
    assert counters.left(100.0 + WRITE_SECONDS + 3) == 0
    counters.take()
    assert counters.left(200.0) is None


def test_hosts_beyond_the_bound_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_counters, "MAX_HOSTS", 2)
    counters = HostCounters()
    counters.add([outcome(f"{name}.example") for name in "abca"], 0.0)
    taken = counters.take()
    assert {name: stats.pages for name, stats in taken.items()} == {"a.example": 2, "b.example": 1}
