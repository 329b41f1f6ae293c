"""Backoff: how long a request waits before its next attempt."""

from __future__ import annotations

import math
import random
import time
from email.utils import parsedate_to_datetime

from crawlframe.errors import MAX_AFTER, FetchError
from crawlframe.response.response import Response

BACKOFF_CAP = 300.0  # seconds
FILE_GONE = "file_gone"  # the reason of a page whose file was pruned before it was recorded
REFETCH = 1000  # milliseconds until such a page is fetched again
RESERVED_MS = 30_000  # milliseconds beyond the timeout of a fetch, for which its page is reserved
# Milliseconds until a request that waits for another's page looks again.
POLL, MAX_POLL = 500, 10_000


def backoff(attempts: int) -> int:
    """Milliseconds before the next attempt: 1, 2, 4 ... seconds up to five minutes, varied by half
    so that simultaneous failures are not retried simultaneously."""
    return round(1000 * min(BACKOFF_CAP, 2.0 ** min(attempts, 30)) * random.uniform(0.5, 1.5))


def retry_after(response: Response) -> int | None:
    """Milliseconds that the server asks to wait (RFC 9110, 10.2.3), at most a year; None when it
    does not ask, or not in a way that can be read."""
    value = response.headers.get("Retry-After", "").strip()
    try:
        seconds = float(value) if value.isascii() and value.isdecimal() else _until(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return math.ceil(1000 * max(0.0, min(MAX_AFTER, seconds)))


def _until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


def backoff_after(error: FetchError, attempts: int) -> int:
    """Milliseconds until the next attempt after this error."""
    asked = 0 if error.response is None else retry_after(error.response) or 0
    return max(backoff(attempts), asked, math.ceil(1000 * min(error.after, MAX_AFTER)))
