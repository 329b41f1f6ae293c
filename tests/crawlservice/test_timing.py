"""Timing: cron and interval, in time zones whose clocks jump."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlservice.scheduling.timing import BadTiming, Timing

BERLIN = "Europe/Berlin"  # 2026-03-29 02:00 -> 03:00, 2026-10-25 03:00 -> 02:00


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due(cron: str, zone: str, after: str, count: int = 3) -> list[str]:
    """The next due times as the wall clock shows them."""
    timing = Timing.of(cron, None, zone)
    found = timing.all_after(at(after))
    return [f"{next(found).astimezone(timing.zone):%m-%d %H:%M %z}" for _ in range(count)]


def test_cron_goes_by_the_clock_of_its_time_zone():
    assert due("0 6 * * 1-5", "Asia/Shanghai", "2026-01-01 21:59") == [
        "01-02 06:00 +0800",
        "01-05 06:00 +0800",
        "01-06 06:00 +0800",
    ]


def test_what_is_due_at_that_very_moment_is_not_after_it():
    assert due("0 6 * * *", "UTC", "2026-01-01 06:00", 1) == ["01-02 06:00 +0000"]
    assert due("0 6 * * *", "UTC", "2026-01-01 05:59:59.999", 1) == ["01-01 06:00 +0000"]


def test_a_time_that_the_clock_jumps_over_comes_when_the_jump_is_over():
    assert due("30 2 * * *", BERLIN, "2026-03-28 00:00") == [
        "03-28 02:30 +0100",
        "03-29 03:00 +0200",
        "03-30 02:30 +0200",
    ]


def test_after_a_late_start_of_that_day_the_next_day_follows():
    assert due("30 2 * * *", BERLIN, "2026-03-29 01:00", 1) == ["03-30 02:30 +0200"]


def test_a_time_that_comes_twice_counts_the_first_time():
    assert due("30 2 * * *", BERLIN, "2026-10-24 12:00", 2) == [
        "10-25 02:30 +0200",
        "10-26 02:30 +0100",
    ]


@pytest.mark.parametrize("after", ["2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:15"])
def test_in_the_doubled_hour_a_time_that_was_there_is_not_due_again(after: str):
    assert due("30 2 * * *", BERLIN, after, 1) == ["10-26 02:30 +0100"]


def test_wildcards_go_with_the_clock_on_the_wall():
    assert due("30 * * * *", BERLIN, "2026-03-29 00:00") == [
        "03-29 01:30 +0100",
        "03-29 03:30 +0200",
        "03-29 04:30 +0200",
    ]
    assert due("30 * * * *", BERLIN, "2026-10-25 00:00") == [
        "10-25 02:30 +0200",
        "10-25 02:30 +0100",
        "10-25 03:30 +0100",
    ]


def test_a_day_that_does_not_exist():
    # Samoa went over the date line: after 2011-12-29 came 2011-12-31.
    assert due("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", 3) == [
        "12-29 12:00 -1000",
        "12-31 00:00 +1400",
        "12-31 12:00 +1400",
    ]


def test_the_29th_of_february_may_be_years_away():
    assert Timing.of("0 0 29 2 *", None, "UTC").after(at("2096-03-01")) == at("2104-02-29")


def test_an_interval_knows_no_clock_on_the_wall():
    timing = Timing.of("", 3600, BERLIN)
    found = timing.upcoming(at("2026-10-24 23:10"), 4)
    assert [b - a for a, b in pairwise(found)] == [timedelta(hours=1)] * 3


@pytest.mark.parametrize(
    ("cron", "every", "first", "until", "latest"),
    [
        ("0 * * * *", None, "2026-01-01 05:00", "2026-01-01 05:00", "2026-01-01 05:00"),
        ("0 * * * *", None, "2026-01-01 05:00", "2026-01-01 05:59:59", "2026-01-01 05:00"),
        ("0 * * * *", None, "2026-01-01 05:00", "2026-03-01 07:30", "2026-03-01 07:00"),
        ("* * * * *", None, "2020-01-01 05:00", "2026-03-01 07:30:20", "2026-03-01 07:30"),
        ("0 0 1 1 *", None, "2020-01-01 00:00", "2026-03-01 07:30", "2026-01-01 00:00"),
        ("0 0 1 1 *", None, "2026-01-01 00:00", "2026-12-31 23:59", "2026-01-01 00:00"),
        ("", 17, "2026-01-01 00:00:01", "2026-01-01 00:00:51", "2026-01-01 00:00:35"),
        ("", 17, "2026-01-01 00:00:01", "2026-01-01 00:00:52", "2026-01-01 00:00:52"),
    ],
)
def test_the_latest_of_many(cron: str, every: int, first: str, until: str, latest: str):
    timing = Timing.of(cron, every, "UTC")
    started = time.process_time()
    assert timing.latest(at(first), at(until)) == at(latest)
    assert time.process_time() - started < 2  # not one by one through the years


@pytest.mark.parametrize(
    ("cron", "every", "zone", "field", "words"),
    [
        ("", None, "UTC", "cron", "give a cron expression"),
        ("* * * * *", 5, "UTC", "every", "not both"),
        ("", 0, "UTC", "every", "at least 10 seconds"),
        ("0 6 * *", None, "UTC", "cron", "has 4 fields; give five"),
        ("0 0 6 * * *", None, "UTC", "cron", "has 6 fields"),
        ("@daily", None, "UTC", "cron", "has 1 fields"),
        ("61 6 * * *", None, "UTC", "cron", "the minute of '61 6"),
        ("0 25 * * *", None, "UTC", "cron", "the hour of"),
        ("0 6 32 * *", None, "UTC", "cron", "the day of month of"),
        ("0 6 * FOO *", None, "UTC", "cron", "the month of"),
        ("0 6 * * 8", None, "UTC", "cron", "the day of week of"),
        ("0 6 30 2 *", None, "UTC", "cron", "the day of month of"),
        ("0 6 * * 1", None, "Mars/Olympus", "timezone", "no time zone 'Mars/Olympus'"),
        ("0 6 * * 1", None, "../../etc/passwd", "timezone", "no time zone"),
        ("0 6 * * 1", None, "", "timezone", "no time zone"),
        ("0 6 * * 1", None, "Europe", "timezone", "no time zone"),
    ],
)
def test_what_can_never_be_due_is_refused(
    cron: str, every: int | None, zone: str, field: str, words: str
):
    with pytest.raises(BadTiming, match=words.replace("(", r"\(")) as raised:
        Timing.of(cron, every, zone)
    assert raised.value.field == field


FIELD = st.text("0123456789*,-/LW#SUNMOAY", min_size=1, max_size=6)


@given(st.lists(FIELD, min_size=5, max_size=5))
def test_whatever_is_typed_is_refused_or_goes_forward(parts: list[str]):
    try:
        timing = Timing.of(" ".join(parts), None, BERLIN)
    except BadTiming:
        return
    moment = at("2026-10-24 21:00")
    for found in timing.upcoming(moment, 5)[1:]:
        assert found > moment
        moment = found


@given(
    st.sampled_from(["30 2 * * *", "*/20 0-3 * * *", "0 0 * * *", "15 1,2 * * *", "5 * * * *"]),
    st.sampled_from(sorted(available_timezones())),
    st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)),
)
def test_no_due_time_is_lost_or_found_twice_wherever_one_begins(
    cron: str, zone: str, start: datetime
):
    """A steward goes from one due time to the next; a list of many must be the same."""
    timing = Timing.of(cron, None, zone)
    moment = start.replace(tzinfo=UTC)
    found = timing.upcoming(moment, 12)
    for before, after in pairwise(found):
        assert timing.after(before) == after
        assert before < after
    assert timing.latest(found[1], found[-1]) == found[-1]
    assert timing.zone == ZoneInfo(zone)
