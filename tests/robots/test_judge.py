"""The next states of a robots.txt: waits that double, copies that count, and giving up."""

from __future__ import annotations

import pytest

from crawlframe.robots.reading import DAY, HOUR, MAX_OUTAGE, Fetched, judge
from crawlframe.robots.state import RobotsState, Status

NOW = 1_800_000_000.0
RULES = b"User-agent: *\nDisallow: /private\nCrawl-delay: 7\n"
DOWN = Fetched(503)
GONE = Fetched(reason="dns", detail="a.example: no such host")


def after(
    before: RobotsState, got: Fetched, now: float = NOW, max_delay: float = 60
) -> RobotsState:
    return judge(before, got, now, "crawlframe", max_delay)


def test_waits_double_up_to_an_hour() -> None:
    state, now, waits = RobotsState(), NOW, []
    for _ in range(9):
        state = after(state, DOWN, now)
        assert state.status is Status.UNREACHABLE
        assert not state.is_known(now)
        assert not state.is_due(now)
        waits.append(state.next_try - now)
        now = state.next_try
        assert state.is_due(now)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert state.unreachable_since == NOW


@pytest.mark.parametrize("got", [DOWN, GONE, Fetched(429), Fetched(reason="timeout")])
def test_it_is_given_up_after_thirty_days(got: Fetched) -> None:
    state = after(RobotsState(), got)
    shortly_before = after(state, got, NOW + MAX_OUTAGE - 1)
    assert shortly_before.status is Status.UNREACHABLE
    then = after(shortly_before, got, NOW + MAX_OUTAGE)
    assert then.status is Status.GIVEN_UP
    assert then.is_known(NOW + MAX_OUTAGE)
    assert "30 days" in then.note
    again = after(then, got, then.known_until)  # it is asked each hour
    assert (again.status, again.known_until) == (Status.GIVEN_UP, then.known_until + HOUR)
    back = after(again, Fetched(200, RULES), again.known_until)
    assert (back.status, back.unreachable_since, back.next_try) == (Status.RULES, 0, 0)


def test_a_copy_goes_on_counting_however_old() -> None:
    read = after(RobotsState(), Fetched(200, RULES))
    assert (read.known_until, read.read_at) == (NOW + DAY, NOW)
    now = read.known_until
    assert read.is_due(now)
    stale = after(read, DOWN, now)
    assert (stale.status, stale.text, stale.crawl_delay) == (read.status, read.text, 7)
    assert stale.read_at == NOW
    assert stale.is_known(now + 59)
    assert not stale.is_due(now + 59)
    assert stale.is_due(now + 60)
    assert "still counts" in stale.note
    old = after(stale, DOWN, now + 2 * MAX_OUTAGE)
    assert (old.status, old.text) == (Status.RULES, read.text)
    new = after(old, Fetched(404), now + 3 * MAX_OUTAGE)
    assert (new.status, new.text, new.unreachable_since) == (Status.NO_RULES, "", 0)


def test_a_missing_file_goes_on_counting_too() -> None:
    missing = after(RobotsState(), Fetched(404))
    stale = after(missing, GONE, missing.known_until)
    assert stale.status is Status.NO_RULES
    assert stale.is_known(missing.known_until)
    assert stale.reason == "dns"


def test_a_delay_beyond_the_limit_is_told() -> None:
    state = after(RobotsState(), Fetched(200, RULES), max_delay=5)
    assert state.crawl_delay == 7
    assert state.note == "it asks for 7 s between two requests; 5 s are kept"
    assert after(RobotsState(), Fetched(200, RULES), max_delay=7).note == ""


def test_a_pending_one_is_due() -> None:
    assert RobotsState().is_due(NOW)
    assert not RobotsState().is_known(NOW)
