"""Moments as people type them: 2026-01-31T18:00, or 90m, 2h, 3d from now or ago."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

from django.utils.dateparse import parse_datetime

from crawlservice.connections import clock

UNITS = {"m": "minutes", "h": "hours", "d": "days"}
LONGEST_SPAN = timedelta(days=36_500)  # a date before it or after it exists
Given = datetime | timedelta | None


def read_moment(text: str) -> datetime | timedelta:
    """A time, in UTC if it names no zone, or how far from now. Raises ArgumentTypeError."""
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if found and (span := timedelta(**{UNITS[found[2]]: int(found[1])})) <= LONGEST_SPAN:
        return span
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or not 1970 < moment.year < 2200:
        raise ArgumentTypeError(f"{text!r} is no time; give 2026-01-31T18:00, or 90m, 2h or 3d")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def ahead(given: Given) -> datetime | None:
    return clock.now() + given if isinstance(given, timedelta) else given


def ago(given: Given) -> datetime | None:
    return clock.now() - given if isinstance(given, timedelta) else given
