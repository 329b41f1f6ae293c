"""Window: the time of day when requests may go, such as ``22:00-06:00 Europe/Berlin``. The clock on
the wall of the zone decides, so a night when the clocks change is longer or shorter.

The frontier gets the offsets of the zone from UTC with the times of their changes, so that it knows
at every instant, by the clock of Redis alone, whether the window is open."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY = 86_400  # seconds
KNOWN_DAYS = 3_653  # ten years, searched for changes of the clocks
_FORM = re.compile(r"(\d\d?):(\d\d) ?- ?(\d\d?):(\d\d)(?: +(\S+))?")


def encode(window: str) -> str:
    """Minute of the day at which it opens, that at which it closes, the offset from UTC in seconds,
    and for each change of it: the time in seconds since the epoch, and the new offset."""
    match = _FORM.fullmatch(window.strip())
    opens, closes = (_minute(match[1], match[2]), _minute(match[3], match[4])) if match else (0, -1)
    if not match or not 0 <= opens < 1440 or not 0 <= closes <= 1440:
        raise ValueError(
            f'window is {window!r}; write it as in "22:00-06:00" for UTC, or as in '
            '"22:00-06:00 Europe/Berlin"'
        )
    if opens == closes:
        raise ValueError(f'window is {window!r}, which is empty; all day is "00:00-24:00"')
    numbers = opens, closes, *_offsets(match[5] or "UTC", int(time.time()) // DAY)
    return ",".join(map(str, numbers))


def _minute(hour: str, minute: str) -> int:
    return 60 * int(hour) + int(minute) if int(minute) < 60 else -1


@lru_cache(maxsize=100)
def _offsets(name: str, today: int) -> tuple[int, ...]:
    """``today``: days since the epoch."""
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"window: there is no time zone {name!r} here; write one as in Europe/Berlin"
        ) from None
    # A day earlier, as the clock of Redis may be behind this machine's.
    found = [_offset(zone, (today - 1) * DAY)]
    for day in range(today - 1, today + KNOWN_DAYS):
        before, after = day * DAY, (day + 1) * DAY
        if _offset(zone, before) != _offset(zone, after):
            found += _change(zone, before, after)
    return tuple(found)


def _change(zone: tzinfo, before: int, after: int) -> tuple[int, int]:
    """When the offset changes between two times, and the new one."""
    old, new = _offset(zone, before), _offset(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if _offset(zone, middle) == old else (before, middle)
    return after, new


def _offset(zone: tzinfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset() or timedelta()
    return round(offset.total_seconds())
