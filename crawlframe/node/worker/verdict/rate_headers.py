"""Rate headers: how many more requests an API allows, and until when, as its responses say.

They are read in the forms in use: ``RateLimit`` of the IETF draft (``"default";r=50;t=30``, and
``limit=100, remaining=50, reset=30`` before), ``RateLimit-Remaining`` and ``-Reset``, and
``X-RateLimit-Remaining`` and ``-Reset``, whose reset is in seconds or a time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from multidict import istr

from crawlframe.response.response import Response

MAX_SECONDS = 25 * 3600.0  # seconds: the quota of a day, and some; what is longer is a mistake
MARGIN = 0.5  # seconds after a reset, which most servers round
EPOCH = 1_000_000_000  # numbers from here on are seconds since 1970, from 1000 times that on ms

_PAIRS = (
    ("RateLimit-Remaining", "RateLimit-Reset"),
    ("X-RateLimit-Remaining", "X-RateLimit-Reset"),
    ("X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
)
_NAMES = (istr("RateLimit"), *(istr(remaining) for remaining, _ in _PAIRS))
_STRUCTURED = re.compile(r";\s*r=(\d{1,15})\b.*?;\s*t=(\d{1,15})\b")
_DRAFT = re.compile(r"\bremaining=(\d{1,15})\b.*?\breset=(\d{1,15})\b")


class Quota(NamedTuple):
    """``remaining`` requests may be sent within ``reset`` seconds."""

    remaining: int
    reset: float

    @property
    def gap(self) -> float:
        """Seconds until the next request, if those that remain are spread evenly."""
        return self.reset / (self.remaining + 1) if self.remaining else self.reset + MARGIN


def quota_of(response: Response) -> Quota | None:
    """What a response says; of several, the one that allows the least. None if it says nothing, or
    nothing that can be read."""
    if not any(map(response.headers.__contains__, _NAMES)):
        return None
    return max(_quotas(response), key=lambda quota: quota.gap, default=None)


def _quotas(response: Response) -> Iterator[Quota]:
    headers = response.headers
    for value in headers.getall("RateLimit", []):
        for part in value.split(",") if '"' in value else [value]:
            found = _STRUCTURED.search(part) or _DRAFT.search(part)
            if found is not None and int(found[2]) <= MAX_SECONDS:
                yield Quota(int(found[1]), float(found[2]))
    for remaining, reset in _PAIRS:
        if remaining not in headers or reset not in headers:
            continue
        left = headers[remaining].split(",")[0].strip()
        seconds = _seconds(headers[reset].partition(";")[0].strip())
        if left.isascii() and left.isdecimal() and 0 <= seconds <= MAX_SECONDS:
            yield Quota(int(left[:15]), seconds)


def _seconds(text: str) -> float:
    """Seconds until a reset; NaN if it cannot be read."""
    try:
        number = float(text)
    except ValueError:
        return _until(text)
    if number >= 1000 * EPOCH:
        number /= 1000
    return max(0.0, number - time.time()) if number >= EPOCH else number


def _until(text: str) -> float:
    """Seconds until a time in the form of HTTP or of ISO 8601."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return max(0.0, read(text).timestamp() - time.time())
        except (TypeError, ValueError, OverflowError):
            continue
    return math.nan
