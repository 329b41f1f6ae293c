"""Backoff: how long a request waits before its next attempt."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime

from crawlframe.response import Response

BACKOFF_CAP = 300.0  # seconds


def backoff(attempts: int) -> int:
    """Milliseconds before the next attempt: 1, 2, 4 ... seconds up to five minutes, varied by half
    so that simultaneous failures are not retried simultaneously."""
    return round(1000 * min(BACKOFF_CAP, 2.0 ** min(attempts, 30)) * random.uniform(0.5, 1.5))


def retry_after(response: Response) -> int:
    """Milliseconds that the server asks to wait (RFC 9110, 10.2.3); 0 when it does not."""
    value = response.headers.get("Retry-After", "").strip()
    if not value:
        return 0
    try:
        seconds = float(value) if value.isdigit() else _until(value)
    except (ValueError, TypeError, OverflowError):
        return 0
    return round(1000 * max(0.0, min(BACKOFF_CAP, seconds)))


def _until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()
